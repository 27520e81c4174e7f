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

from sttau.engine.derivatives import first_order
from sttau.engine.launch import launch
from sttau.engine.path_sum.triton_common import ANY_INTEGER, padded
from sttau.engine.path_sum.triton_table import table_gradient

_SHORTEST = 16  # steps of a block
_ROWS = 16  # distributions that a program normalizes
_BLOCKED_STATES = 32  # more states than this are not cut into blocks


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
def _number(places, place, exists):
    """Number of the matrix of a step."""
    if places is None:
        return place
    else:
        return tl.load(places + place, mask=exists, other=0).to(tl.int64)


@triton.jit
def _load_matrix(matrices, number, exists, K: tl.constexpr, KP: tl.constexpr):
    i = tl.arange(0, KP)
    inside = (i < tl.where(exists, K, 0))[:, None] & (i < K)[None, :]
    return tl.load(matrices + number * (K * K) + i[:, None] * K + i[None, :], mask=inside, other=0.0)


@triton.jit
def _follow(distribution, matrix):
    return tl.sum(distribution[:, None] * matrix, 0)


@triton.jit(do_not_specialize=ANY_INTEGER)
def _block_products(
    matrices, lengths, places, products, time, blocks, size, K: tl.constexpr, KP: tl.constexpr
):  # fmt: skip
    """The product of the matrices of each block."""
    sequence, block, begin, valid, _end = _place(lengths, time, blocks, size)
    i = tl.arange(0, KP)
    product = tl.where((i[:, None] == i[None, :]) & (i < K)[None, :], 1.0, 0.0)
    step = sequence * time
    matrix = _load_matrix(matrices, _number(places, step + begin, begin < valid), begin < valid, K, KP)
    number = _number(places, step + begin + 1, begin + 1 < valid)
    for t in range(begin, valid):  # a matrix is loaded a step before its use, and its number a step before that
        following = _load_matrix(matrices, number, t + 1 < valid, K, KP)
        number = _number(places, step + t + 2, t + 2 < valid)
        product = tl.dot(product, matrix, input_precision="tf32x3")
        matrix = following
    product = product / tl.where(i < K, tl.sum(product, 1), 1.0)[:, None]
    to = products + (sequence * blocks + block) * (K * K) + i[:, None] * K + i[None, :]
    tl.store(to, product, mask=(i < K)[:, None] & (i < K)[None, :])


@triton.jit(do_not_specialize=ANY_INTEGER)
def _forward(
    first, matrices, lengths, places, products, distributions, time, blocks, size, K: tl.constexpr, KP: tl.constexpr
):  # fmt: skip
    """Reach the own block by the products of those before it, then go through it step by step."""
    sequence, block, begin, valid, end = _place(lengths, time, blocks, size)
    i = tl.arange(0, KP)
    distribution = tl.load(first + sequence * K + i, mask=i < K, other=0.0)
    to = distributions + sequence * (time + 1) * K + i
    tl.store(to, distribution, mask=i < tl.where(block == 0, K, 0))

    if products is not None:
        matrix = _load_matrix(products, sequence * blocks, block > 0, K, KP)
        for b in range(block):
            following = _load_matrix(products, sequence * blocks + b + 1, b + 1 < block, K, KP)
            distribution = _follow(distribution, matrix)
            matrix = following
    step = sequence * time
    matrix = _load_matrix(matrices, _number(places, step + begin, begin < valid), begin < valid, K, KP)
    number = _number(places, step + begin + 1, begin + 1 < valid)
    for t in range(begin, valid):
        following = _load_matrix(matrices, number, t + 1 < valid, K, KP)
        number = _number(places, step + t + 2, t + 2 < valid)
        distribution = _follow(distribution, matrix)
        tl.store(to + (t + 1) * K, distribution, mask=i < K)
        matrix = following
    for t in range(valid, end):
        tl.store(to + (t + 1) * K, distribution, mask=i < K)


@triton.jit(do_not_specialize=ANY_INTEGER)
def _block_messages(
    grad, matrices, lengths, places, messages, time, blocks, size, K: tl.constexpr, KP: tl.constexpr
):  # fmt: skip
    """The gradient of the distribution before a block, from those of the block's own distributions."""
    sequence, block, begin, valid, end = _place(lengths, time, blocks, size)
    i = tl.arange(0, KP)
    slopes = grad + sequence * (time + 1) * K + i
    message = tl.zeros([KP], tl.float32)
    for t in range(valid, end):
        message += tl.load(slopes + (t + 1) * K, mask=i < K, other=0.0)
    step = sequence * time
    last = valid - 1
    matrix = _load_matrix(matrices, _number(places, step + last, last >= begin), last >= begin, K, KP)
    number = _number(places, step + last - 1, last - 1 >= begin)
    slope = tl.load(slopes + valid * K, mask=i < tl.where(begin < valid, K, 0), other=0.0)
    for t in range(begin, valid):
        before = begin + valid - 2 - t  # the step after this one, going backwards
        following = _load_matrix(matrices, number, before >= begin, K, KP)
        number = _number(places, step + before - 1, before - 1 >= begin)
        next_slope = tl.load(slopes + (before + 1) * K, mask=i < tl.where(before >= begin, K, 0), other=0.0)
        message = tl.sum(matrix * (message + slope)[None, :], 1)
        matrix = following
        slope = next_slope
    tl.store(messages + (sequence * blocks + block) * K + i, message, mask=i < K)


@triton.jit(do_not_specialize=ANY_INTEGER)
def _backward(
    grad, matrices, lengths, places, products, messages, grad_first, deltas, time, blocks, size,
    K: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """Reach the own block by the messages of those after it, then go through it backwards.

    ``deltas`` takes the gradient of π_{t-1} A_t for every step: that of A_t is its outer product with π_{t-1}.
    """
    sequence, block, begin, valid, end = _place(lengths, time, blocks, size)
    i = tl.arange(0, KP)
    message = tl.zeros([KP], tl.float32)
    if products is not None:
        for number in range(block + 1, blocks):
            b = sequence * blocks + (blocks + block - number)
            own = tl.load(messages + b * K + i, mask=i < K, other=0.0)
            product = _load_matrix(products, b, number < blocks, K, KP)
            message = own + tl.sum(product * message[None, :], 1)

    slopes = grad + sequence * (time + 1) * K + i
    to = deltas + sequence * time * K + i
    for t in range(valid, end):
        message += tl.load(slopes + (t + 1) * K, mask=i < K, other=0.0)
        tl.store(to + t * K, tl.zeros([KP], tl.float32), mask=i < K)
    step = sequence * time
    last = valid - 1
    matrix = _load_matrix(matrices, _number(places, step + last, last >= begin), last >= begin, K, KP)
    number = _number(places, step + last - 1, last - 1 >= begin)
    slope = tl.load(slopes + valid * K, mask=i < tl.where(begin < valid, K, 0), other=0.0)
    for back in range(begin, valid):
        t = begin + valid - 1 - back
        following = _load_matrix(matrices, number, t - 1 >= begin, K, KP)
        number = _number(places, step + t - 2, t - 2 >= begin)
        next_slope = tl.load(slopes + t * K, mask=i < tl.where(t - 1 >= begin, K, 0), other=0.0)
        message += slope
        tl.store(to + t * K, message, mask=i < K)
        message = tl.sum(matrix * message[None, :], 1)
        matrix = following
        slope = next_slope
    if block == 0:
        tl.store(grad_first + sequence * K + i, message + tl.load(slopes, mask=i < K, other=0.0), mask=i < K)


@triton.jit(do_not_specialize=ANY_INTEGER)
def _normalize(distributions, count, K: tl.constexpr, KP: tl.constexpr, M: tl.constexpr):
    """Divide each distribution by its sum, in place."""
    m = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    i = tl.arange(0, KP)
    on = (m < count)[:, None] & (i < K)[None, :]
    value = tl.load(distributions + m[:, None] * K + i[None, :], mask=on, other=0.0)
    total = tl.where(m < count, tl.sum(value, 1), 1.0)
    tl.store(distributions + m[:, None] * K + i[None, :], value / total[:, None], mask=on)


@triton.jit(do_not_specialize=ANY_INTEGER)
def _center(grad, distributions, centered, count, time, K: tl.constexpr, KP: tl.constexpr, M: tl.constexpr):
    """Subtract from a gradient, but the first, its mean under the distribution: the gradient of the normalization."""
    m = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    i = tl.arange(0, KP)
    on = (m < count)[:, None] & (i < K)[None, :]
    slope = tl.load(grad + m[:, None] * K + i[None, :], mask=on, other=0.0)
    value = tl.load(distributions + m[:, None] * K + i[None, :], mask=on, other=0.0)
    mean = tl.where(m % (time + 1) == 0, 0.0, tl.sum(slope * value, 1))
    tl.store(centered + m[:, None] * K + i[None, :], slope - mean[:, None], mask=on)


def _blocks(time: int, k: int) -> tuple[int, int]:
    """Number of blocks, and steps per block.

    Few states: about 2·√(2T) steps are then serial. Products of large matrices cost more than going through a sequence
    step by step.
    """
    size = max(_SHORTEST, math.isqrt(time // 2)) if k <= _BLOCKED_STATES else time
    return -(-time // size), size


def _room(batch: int, time: int, k: int) -> tuple[int, int, int, int]:
    """The shape that holds the products of any number of blocks; ``time`` may be symbolic."""
    return batch, (time + _SHORTEST - 1) // _SHORTEST if k <= _BLOCKED_STATES else 0, k, k


def _scan_options(k: int, *, product: bool = False) -> dict[str, int]:
    """Few warps, which exchange little at every step; more for products of matrices."""
    most = padded(k)
    return {"K": k, "KP": most, "num_warps": min(4, most // 16) if product else max(1, most // 32)}


def _row_options(k: int) -> dict[str, int]:
    return {"K": k, "KP": padded(k), "M": _ROWS, "num_warps": 4}


def _state_distribution(
    first: Tensor, matrices: Tensor, lengths: Tensor | None, places: Tensor | None
) -> tuple[Tensor, Tensor]:
    """From (batch, k), matrices (n, k, k), (batch,) and (batch, time - 1): distributions, and products of blocks.

    Without ``places``, the matrices are those of all steps in their order: (batch, time - 1, k, k).
    """
    (batch, k), time = first.shape, (matrices if places is None else places).shape[1]
    blocks, size = _blocks(time, k)
    distributions, room = first.new_empty(batch, time + 1, k), first.new_empty(_room(batch, time, k))
    products = room if blocks > 1 else None
    programs, integers, options = batch * blocks, (time, blocks, size), _scan_options(k)
    if products is not None:
        tensors = (matrices, lengths, places, products)
        launch(_block_products, programs, tensors, integers, _scan_options(k, product=True))
    launch(_forward, programs, (first, matrices, lengths, places, products, distributions), integers, options)
    count = batch * (time + 1)
    launch(_normalize, triton.cdiv(count, _ROWS), (distributions,), (count,), _row_options(k))
    return distributions, room


_operator = torch.library.custom_op("sttau::state_distribution", _state_distribution, mutates_args=())


@_operator.register_fake
def _(first: Tensor, matrices: Tensor, lengths: Tensor | None, places: Tensor | None) -> tuple[Tensor, Tensor]:
    (batch, k), time = first.shape, (matrices if places is None else places).shape[1]
    return first.new_empty(batch, time + 1, k), first.new_empty(_room(batch, time, k))


def _state_distribution_backward(
    grad: Tensor,
    matrices: Tensor,
    lengths: Tensor | None,
    places: Tensor | None,
    distributions: Tensor,
    room: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradients of π_1 and of the matrices, for stochastic matrices."""
    (batch, steps, k), time = grad.shape, grad.shape[1] - 1
    blocks, size = _blocks(time, k)
    given, grad = grad.contiguous(), torch.empty(grad.shape, dtype=grad.dtype, device=grad.device)
    programs = triton.cdiv(batch * steps, _ROWS)
    launch(_center, programs, (given, distributions, grad), (batch * steps, time), _row_options(k))
    grad_first, deltas = grad.new_empty(batch, k), grad.new_empty(batch, time, k)
    programs, integers, options = batch * blocks, (time, blocks, size), _scan_options(k)
    products = messages = None
    if blocks > 1:
        products, messages = room, grad.new_empty(batch, blocks, k)
        launch(_block_messages, programs, (grad, matrices, lengths, places, messages), integers, options)
    tensors = (grad, matrices, lengths, places, products, messages, grad_first, deltas)
    launch(_backward, programs, tensors, integers, options)
    if places is None:
        return grad_first, distributions[:, :-1, :, None] * deltas[:, :, None, :]
    return grad_first, table_gradient(distributions, deltas, places, matrices)


_backward_operator = torch.library.custom_op(
    "sttau::state_distribution_backward", _state_distribution_backward, mutates_args=()
)


@_backward_operator.register_fake
def _(
    grad: Tensor,
    matrices: Tensor,
    lengths: Tensor | None,
    places: Tensor | None,
    distributions: Tensor,
    room: Tensor,
) -> tuple[Tensor, Tensor]:
    return grad.new_empty(grad.shape[0], grad.shape[2]), torch.empty_like(matrices)


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs[1:], *output)


@first_order
def _gradients(ctx, grad, _, operator=_backward_operator):
    return *operator(grad, *ctx.saved_tensors), None, None


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
    def backward(ctx, grad, unused):
        return _gradients(ctx, grad, unused, _state_distribution_backward)


def state_distribution(
    first: Tensor, matrices: Tensor, lengths: Tensor | None = None, places: Tensor | None = None
) -> Tensor:
    """As :func:`sttau.engine.path_sum.state_distribution`, for at least one step and at most 128 states."""
    lengths = None if lengths is None else lengths.to(matrices.device)
    places = None if places is None else places.contiguous()
    plain = (tensor.to(torch.float32).contiguous() for tensor in (first, matrices))
    operator = _operator if torch.compiler.is_compiling() else _StateDistribution.apply
    distributions: Tensor = operator(*plain, lengths, places)[0]
    return distributions.to(matrices.dtype)
