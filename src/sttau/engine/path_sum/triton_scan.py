"""Distributions of the state on a GPU: the kernels behind :func:`sttau.engine.path_sum.state_distribution`.

A sequence is cut into blocks. The product of each block is computed first, in parallel. Each program then reaches its
own block by multiplying a distribution (or a gradient message) with the products of the blocks before (or after) it,
and goes through it step by step. Rows are normalized on the way, so that rounding does not accumulate.

No atomics are used: results are the same from run to run. Values are float32; matrix products split them into two TF32
values, which keeps about 21 bits.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from sttau.engine.launch import launch
from sttau.engine.path_sum.triton_common import ANY_INTEGER, padded

_SHORTEST = 16  # steps of a block


@triton.jit
def _place(lengths, time, blocks, size):
    """Sequence and block of a program, the block's first step, and the ends of its valid steps and of all its steps."""
    sequence = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    begin = block * size
    end = tl.minimum(begin + size, time)
    if lengths is None:
        valid = end
    else:
        valid = tl.maximum(tl.minimum(end, tl.load(lengths + sequence).to(tl.int32) - 1), begin)
    return sequence, block, begin, valid, end


@triton.jit
def _load_matrix(pointer, exists, K: tl.constexpr, KP: tl.constexpr):
    i = tl.arange(0, KP)
    inside = (i < tl.where(exists, K, 0))[:, None] & (i < K)[None, :]
    return tl.load(pointer + i[:, None] * K + i[None, :], mask=inside, other=0.0)


@triton.jit
def _follow(distribution, matrix):
    distribution = tl.sum(distribution[:, None] * matrix, 0)
    return distribution / tl.sum(distribution, 0)


@triton.jit(do_not_specialize=ANY_INTEGER)
def _block_products(matrices, lengths, products, time, blocks, size, K: tl.constexpr, KP: tl.constexpr):
    """The product of the matrices of each block."""
    sequence, block, begin, valid, _end = _place(lengths, time, blocks, size)
    i = tl.arange(0, KP)
    product = tl.where((i[:, None] == i[None, :]) & (i < K)[None, :], 1.0, 0.0)
    source = matrices + sequence * time * (K * K)
    matrix = _load_matrix(source + begin * (K * K), begin < valid, K, KP)
    for t in range(begin, valid):
        following = _load_matrix(source + (t + 1) * (K * K), t + 1 < valid, K, KP)  # loaded a step before its use
        product = tl.dot(product, matrix, input_precision="tf32x3")
        matrix = following
    product = product / tl.where(i < K, tl.sum(product, 1), 1.0)[:, None]
    to = products + (sequence * blocks + block) * (K * K) + i[:, None] * K + i[None, :]
    tl.store(to, product, mask=(i < K)[:, None] & (i < K)[None, :])


@triton.jit(do_not_specialize=ANY_INTEGER)
def _forward(first, matrices, lengths, products, distributions, time, blocks, size, K: tl.constexpr, KP: tl.constexpr):
    """Reach the own block by the products of those before it, then go through it step by step."""
    sequence, block, begin, valid, end = _place(lengths, time, blocks, size)
    i = tl.arange(0, KP)
    distribution = tl.load(first + sequence * K + i, mask=i < K, other=0.0)
    to = distributions + sequence * (time + 1) * K + i
    tl.store(to, distribution, mask=i < tl.where(block == 0, K, 0))

    source = products + sequence * blocks * (K * K)
    matrix = _load_matrix(source, block > 0, K, KP)
    for b in range(block):
        following = _load_matrix(source + (b + 1) * (K * K), b + 1 < block, K, KP)
        distribution = _follow(distribution, matrix)
        matrix = following
    source = matrices + sequence * time * (K * K)
    matrix = _load_matrix(source + begin * (K * K), begin < valid, K, KP)
    for t in range(begin, valid):
        following = _load_matrix(source + (t + 1) * (K * K), t + 1 < valid, K, KP)
        distribution = _follow(distribution, matrix)
        tl.store(to + (t + 1) * K, distribution, mask=i < K)
        matrix = following
    for t in range(valid, end):
        tl.store(to + (t + 1) * K, distribution, mask=i < K)


@triton.jit(do_not_specialize=ANY_INTEGER)
def _block_messages(grad, matrices, lengths, messages, time, blocks, size, K: tl.constexpr, KP: tl.constexpr):
    """The gradient of the distribution before a block, from the gradients of the block's own distributions."""
    sequence, block, begin, valid, end = _place(lengths, time, blocks, size)
    i = tl.arange(0, KP)
    slopes = grad + sequence * (time + 1) * K + i
    source = matrices + sequence * time * (K * K)
    message = tl.zeros([KP], tl.float32)
    for t in range(valid, end):
        message += tl.load(slopes + (t + 1) * K, mask=i < K, other=0.0)
    matrix = _load_matrix(source + (valid - 1) * (K * K), begin < valid, K, KP)
    slope = tl.load(slopes + valid * K, mask=i < tl.where(begin < valid, K, 0), other=0.0)
    for t in range(begin, valid):
        before = begin + valid - 2 - t  # the step after this one, going backwards
        following = _load_matrix(source + before * (K * K), before >= begin, K, KP)
        next_slope = tl.load(slopes + (before + 1) * K, mask=i < tl.where(before >= begin, K, 0), other=0.0)
        message = tl.sum(matrix * (message + slope)[None, :], 1)
        matrix = following
        slope = next_slope
    tl.store(messages + (sequence * blocks + block) * K + i, message, mask=i < K)


@triton.jit(do_not_specialize=ANY_INTEGER)
def _backward(
    grad, matrices, lengths, products, messages, distributions, grad_first, grad_matrices, time, blocks, size,
    K: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """Reach the own block by the messages of those after it, then go through it backwards."""
    sequence, block, begin, valid, end = _place(lengths, time, blocks, size)
    i = tl.arange(0, KP)
    on = (i < K)[:, None] & (i < K)[None, :]
    message = tl.zeros([KP], tl.float32)
    for number in range(block + 1, blocks):
        b = sequence * blocks + (blocks + block - number)
        own = tl.load(messages + b * K + i, mask=i < K, other=0.0)
        product = _load_matrix(products + b * (K * K), number < blocks, K, KP)
        message = own + tl.sum(product * message[None, :], 1)
        # A constant in a message has no effect on a distribution; without it, values stay small.
        message = tl.where(i < K, message - tl.sum(message, 0) / K, 0.0)

    slopes = grad + sequence * (time + 1) * K + i
    reached = distributions + sequence * (time + 1) * K + i
    source = matrices + sequence * time * (K * K)
    to = grad_matrices + sequence * time * (K * K) + i[:, None] * K + i[None, :]
    for t in range(valid, end):
        message += tl.load(slopes + (t + 1) * K, mask=i < K, other=0.0)
        tl.store(to + t * (K * K), tl.zeros([KP, KP], tl.float32), mask=on)
    held = tl.load(reached + end * K, mask=i < tl.where(valid < end, K, 0), other=0.0)
    message -= tl.sum(message * held, 0)  # the gradient of the normalization, here of a distribution that is repeated
    for number in range(begin, valid):
        t = begin + valid - 1 - number
        matrix = _load_matrix(source + t * (K * K), number < valid, K, KP)
        slope = tl.load(slopes + (t + 1) * K, mask=i < K, other=0.0)
        distribution = tl.load(reached + (t + 1) * K, mask=i < K, other=0.0)
        before = tl.load(reached + t * K, mask=i < K, other=0.0)
        message += slope
        message -= tl.sum(message * distribution, 0)
        tl.store(to + t * (K * K), before[:, None] * message[None, :], mask=on)
        message = tl.sum(matrix * message[None, :], 1)
    if block == 0:
        tl.store(grad_first + sequence * K + i, message + tl.load(slopes, mask=i < K, other=0.0), mask=i < K)


def _blocks(time: int) -> tuple[int, int]:
    """Number of blocks, and steps per block; about 2·√(2T) steps are then serial."""
    size = max(_SHORTEST, math.isqrt(time // 2))
    return -(-time // size), size


def _room(batch: int, time: int, k: int) -> tuple[int, int, int, int]:
    """The shape that holds the products of any number of blocks; ``time`` may be symbolic."""
    return batch, (time + _SHORTEST - 1) // _SHORTEST, k, k


def _scan_options(k: int) -> dict[str, int]:
    return {"K": k, "KP": padded(k), "num_warps": 1 if k <= 16 else 4}


def _state_distribution(first: Tensor, matrices: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """From (batch, k), (batch, time - 1, k, k), (batch,): the distributions (batch, time, k) and products of blocks."""
    batch, time, k, _ = matrices.shape
    blocks, size = _blocks(time)
    distributions, products = first.new_empty(batch, time + 1, k), first.new_empty(_room(batch, time, k))
    programs, integers, options = batch * blocks, (time, blocks, size), _scan_options(k)
    launch(_block_products, programs, (matrices, lengths, products), integers, options)
    launch(_forward, programs, (first, matrices, lengths, products, distributions), integers, options)
    return distributions, products


_operator = torch.library.custom_op("sttau::state_distribution", _state_distribution, mutates_args=())


@_operator.register_fake
def _(first: Tensor, matrices: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    batch, time, k, _ = matrices.shape
    return first.new_empty(batch, time + 1, k), first.new_empty(_room(batch, time, k))


def _state_distribution_backward(
    grad: Tensor, matrices: Tensor, lengths: Tensor | None, distributions: Tensor, products: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of π_1 and of the matrices, for stochastic matrices."""
    batch, time, k, _ = matrices.shape
    blocks, size = _blocks(time)
    grad = grad.contiguous()
    messages, grad_first, grad_matrices = (
        grad.new_empty(batch, blocks, k),
        grad.new_empty(batch, k),
        torch.empty_like(matrices),
    )
    programs, integers, options = batch * blocks, (time, blocks, size), _scan_options(k)
    launch(_block_messages, programs, (grad, matrices, lengths, messages), integers, options)
    tensors = (grad, matrices, lengths, products, messages, distributions, grad_first, grad_matrices)
    launch(_backward, programs, tensors, integers, options)
    return grad_first, grad_matrices


_backward_operator = torch.library.custom_op(
    "sttau::state_distribution_backward", _state_distribution_backward, mutates_args=()
)


@_backward_operator.register_fake
def _(
    grad: Tensor, matrices: Tensor, lengths: Tensor | None, distributions: Tensor, products: Tensor
) -> tuple[Tensor, Tensor]:
    return grad.new_empty(grad.shape[0], grad.shape[2]), torch.empty_like(matrices)


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs[1:], *output)


def _gradients(ctx, grad, _, operator=_backward_operator):
    return *operator(grad, *ctx.saved_tensors), None


_operator.register_autograd(_gradients, setup_context=_save)


class _StateDistribution(torch.autograd.Function):
    """The same without PyTorch's dispatcher."""

    @staticmethod
    def forward(ctx, *inputs):
        results = _state_distribution(*inputs)
        _save(ctx, inputs, results)
        ctx.mark_non_differentiable(results[1])
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, unused):
        return _gradients(ctx, grad, unused, _state_distribution_backward)


def state_distribution(first: Tensor, matrices: Tensor, lengths: Tensor | None) -> Tensor:
    """As :func:`sttau.engine.path_sum.state_distribution`, for at least one matrix, of at most 32 states."""
    lengths = None if lengths is None else lengths.to(matrices.device)
    plain = (tensor.to(torch.float32).contiguous() for tensor in (first, matrices))
    distributions: Tensor = (_operator if torch.compiler.is_compiling() else _StateDistribution.apply)(*plain, lengths)[
        0
    ]
    return distributions.to(matrices.dtype)
