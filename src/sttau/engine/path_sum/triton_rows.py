"""Transition probabilities on a GPU: the kernels behind :func:`sttau.engine.path_sum.transition_rows`.

A program owns a tile of inputs and loops over d in blocks, so that nothing of size inputs · k · d leaves the chip. The
projected input x W_xᵀ + b is one matrix product and exists for one piece of the inputs at a time. The backward pass
saves A alone and recomputes the gates.

No atomics are used: results are the same from run to run. Values are float32; matrix products split them into two TF32
values, which keeps about 21 bits.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from sttau.engine.derivatives import first_order
from sttau.engine.launch import launch
from sttau.engine.path_sum.triton_common import ANY_INTEGER, padded
from sttau.engine.recurrence.reference import Weights

_PIECE_VALUES = 1 << 24  # values of the projected input, and of shares of gradients, that exist at once
# How many inputs (M) and columns of d (C) a program holds at a time. Forward, 64 inputs fill the tensor cores;
# backward, 16 leave all rows of a column to one warp, so that sums over rows need no memory.
_FORWARD = {"M": 64, "C": 32, "num_warps": 4, "num_stages": 2}
_BACKWARD = {"M": 16, "C": 64, "num_warps": 4, "num_stages": 2}
_GROUP = 80  # logits of an input that a program holds


@triton.jit
def _sigmoid(x):
    y = tl.rsqrt(1 + tl.exp(-x))  # a division takes several instructions, this root one
    return y * y


@triton.jit
def _gates(x_r, x_z, x_n, h_r, h_z, h_n):
    r = _sigmoid(x_r + h_r[None, :])
    z = _sigmoid(x_z + h_z[None, :])
    n = 2 * _sigmoid(2 * (x_n + r * h_n[None, :])) - 1  # tanh
    return r, z, n


@triton.jit
def _load_three(pointer, mask, d: tl.constexpr):
    """The parts r, z and n that lie d apart."""
    r = tl.load(pointer, mask=mask, other=0.0)
    z = tl.load(pointer + d, mask=mask, other=0.0)
    n = tl.load(pointer + 2 * d, mask=mask, other=0.0)
    return r, z, n


@triton.jit
def _used(used, skipped, count):
    """How many inputs of a piece are computed: all, or what is left of ``used`` where the piece begins."""
    if used is None:
        return count
    else:
        return tl.minimum(count, tl.load(used) - skipped)


@triton.jit(do_not_specialize=ANY_INTEGER)
def _forward(
    x, recurrent, hidden, states, rows, used, count, skipped, sources,
    d: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, GROUP: tl.constexpr, M: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """A program computes the rows of M inputs from GROUP of the hidden states (``sources`` in all)."""
    groups = tl.cdiv(sources, GROUP)
    first = (tl.program_id(0) % groups) * GROUP
    begin = (tl.program_id(0) // groups).to(
        tl.int64
    ) * M  # offsets in large tensors: 64 bits for the tile, 32 inside it
    left = _used(used, skipped, count) - begin
    if left <= 0:
        return
    m, j = tl.arange(0, M), tl.arange(0, KP)
    here = m < left
    x += begin * (3 * d)
    rows += begin * sources * K
    logits = ()
    for _ in tl.static_range(GROUP):
        logits = logits + (tl.zeros([M, KP], tl.float32),)
    for start in range(0, d, C):
        c = start + tl.arange(0, C)
        on = here[:, None] & (c < d)[None, :]
        x_r, x_z, x_n = _load_three(x + m[:, None] * (3 * d) + c[None, :], on, d)
        # S is zero beyond d, so the value of u there does not matter
        S = tl.load(states + j[:, None] * d + c[None, :], mask=(j < K)[:, None] & (c < d)[None, :], other=0.0)
        added = ()
        for g in tl.static_range(GROUP):
            i = first + g
            there = c < tl.where(i < sources, d, 0)
            h_r, h_z, h_n = _load_three(recurrent + i * (3 * d) + c, there, d)
            h = tl.load(hidden + i * d + c, mask=there, other=0.0)
            _r, z, n = _gates(x_r, x_z, x_n, h_r, h_z, h_n)
            u = n + z * (h[None, :] - n)
            added = added + (tl.dot(u, tl.trans(S), logits[g], input_precision="tf32x3"),)
        logits = added
    for g in tl.static_range(GROUP):
        i = first + g
        score = tl.where((j < K)[None, :], logits[g], float("-inf"))
        weight = tl.exp(score - tl.max(score, 1)[:, None])
        probability = weight / tl.sum(weight, 1)[:, None]
        on = here[:, None] & (j < tl.where(i < sources, K, 0))[None, :]
        tl.store(rows + (m[:, None] * sources + i) * K + j[None, :], probability, mask=on)


@triton.jit(do_not_specialize=ANY_INTEGER)
def _backward(
    x, recurrent, hidden, states, rows, grad, shares, used, count, skipped, sources,
    d: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, M: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """A program owns M inputs and C columns. The gradient of x overwrites x; of other gradients it writes a share.

    A tile's shares are 4 · sources rows for the three recurrent parts and h, k rows for S and 3 rows for the bias.
    """
    blocks: tl.constexpr = (d + C - 1) // C
    tile = (tl.program_id(0) // blocks).to(tl.int64)
    c = (tl.program_id(0) % blocks) * C + tl.arange(0, C)
    m, j = tl.arange(0, M), tl.arange(0, KP)
    here = m < _used(used, skipped, count) - tile * M
    on = here[:, None] & (c < d)[None, :]
    given = (m < count - tile * M)[:, None] & (c < d)[None, :]  # others have no gradient
    inside = here[:, None] & (j < K)[None, :]
    place = x + tile * (M * 3 * d) + (m[:, None] * (3 * d) + c[None, :])
    if _used(used, skipped, count) <= tile * M:
        nothing = tl.zeros([M, C], tl.float32)
        tl.store(place, nothing, mask=given)
        tl.store(place + d, nothing, mask=given)
        tl.store(place + 2 * d, nothing, mask=given)
        return
    entry = m[:, None] * (sources * K) + j[None, :]
    rows += tile * M * sources * K
    grad += tile * M * sources * K
    shares += tile * (4 * sources + K + 3) * d + c
    pair = tl.arange(0, 2)
    part = (pair[None, :, None] + 2 * pair[None, None, :]) * d
    x_r, x_z, x_n = _load_three(place, on, d)
    S = tl.load(states + j[:, None] * d + c[None, :], mask=(j < K)[:, None] & (c < d)[None, :], other=0.0)
    # Adding a zero product converts x to the layout of products once, instead of its gates in every iteration.
    nothing = tl.zeros([M, KP], tl.float32)
    x_r = tl.dot(nothing, S, x_r, input_precision="tf32")
    x_z = tl.dot(nothing, S, x_z, input_precision="tf32")
    x_n = tl.dot(nothing, S, x_n, input_precision="tf32")
    d_r = tl.zeros([M, C], tl.float32)
    d_z = tl.zeros([M, C], tl.float32)
    d_n = tl.zeros([M, C], tl.float32)
    d_S = tl.zeros([KP, C], tl.float32)
    for i in range(sources):
        probability = tl.load(rows + i * K + entry, mask=inside, other=0.0)
        slope = tl.load(grad + i * K + entry, mask=inside, other=0.0)
        slope = probability * (slope - tl.sum(probability * slope, 1)[:, None])
        d_u = tl.dot(slope, S, input_precision="tf32x3")
        h_r, h_z, h_n = _load_three(recurrent + i * (3 * d) + c, c < d, d)
        h = tl.load(hidden + i * d + c, mask=c < d, other=0.0)
        r, z, n = _gates(x_r, x_z, x_n, h_r, h_z, h_n)
        keep = h[None, :] - n
        g_n = d_u * (1 - z) * (1 - n * n)
        g_z = d_u * keep * z * (1 - z)
        g_r = g_n * h_n[None, :] * r * (1 - r)
        d_r += g_r
        d_z += g_z
        d_n += g_n
        d_S = tl.dot(tl.trans(slope), n + z * keep, d_S, input_precision="tf32x3")
        # Joined, the four sums over rows take one exchange between threads.
        share = tl.sum(tl.join(tl.join(g_r, g_z), tl.join(g_n * r, d_u * z)), 0)
        tl.store((shares + i * (4 * d))[:, None, None] + part, share, mask=(c < d)[:, None, None])
    tl.store(place, d_r, mask=given)
    tl.store(place + d, d_z, mask=given)
    tl.store(place + 2 * d, d_n, mask=given)
    shares += sources * (4 * d)
    tl.store(shares[None, :] + j[:, None] * d, d_S, mask=(j < K)[:, None] & (c < d)[None, :])
    tl.store(shares + K * d, tl.sum(d_r, 0), mask=c < d)
    tl.store(shares + (K + 1) * d, tl.sum(d_z, 0), mask=c < d)
    tl.store(shares + (K + 2) * d, tl.sum(d_n, 0), mask=c < d)


@triton.jit(do_not_specialize=ANY_INTEGER)
def _add_shares(sums, shares, used, count, skipped, size, M: tl.constexpr, N: tl.constexpr):
    """Add the shares of the tiles that are used, in their order, to sums of ``size`` values."""
    n = tl.program_id(0) * N + tl.arange(0, N)
    total = tl.load(sums + n, mask=n < size, other=0.0)
    tiles = tl.cdiv(tl.maximum(_used(used, skipped, count), 0), M)
    for tile in range(tiles):
        total += tl.load(shares + tl.cast(tile, tl.int64) * size + n, mask=n < size, other=0.0)
    tl.store(sums + n, total, mask=n < size)


def _options(k: int) -> dict[str, int]:
    return {
        "K": k,
        "KP": padded(k),
        "maxnreg": 168 if k <= 16 else 255,
    }  # with 168 three programs share a multiprocessor


def _project(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    return torch.mm(x, weight.T, out=out) if bias is None else torch.addmm(bias, x, weight.T, out=out)


def _transition_rows(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    recurrent: Tensor,
    hidden: Tensor,
    states: Tensor,
    used: Tensor | None,
) -> Tensor:
    """(count, features), (3d, features), (3d,), (n, 3d), (n, d) and (k, d) to (count, n, k), of used inputs."""
    count, (sources, d), k = len(inputs), hidden.shape, len(states)
    rows = inputs.new_empty(count, sources, k)
    group = max(1, _GROUP // padded(k))
    group = -(-sources // -(-sources // group))  # groups of about the same size
    size = min(count, max(1, _PIECE_VALUES // (3 * d)))
    projected = inputs.new_empty(size, 3 * d)
    for begin in range(0, count, size or 1):
        piece = inputs[begin : begin + size]
        x = _project(piece, weight, bias, projected[: len(piece)])
        programs = triton.cdiv(len(piece), _FORWARD["M"]) * triton.cdiv(sources, group)
        tensors = (x, recurrent, hidden, states, rows[begin : begin + size], used)
        options = {"d": d, "GROUP": group, **_options(k), **_FORWARD}
        launch(_forward, programs, tensors, (len(piece), begin, sources), options)
    return rows


_operator = torch.library.custom_op("sttau::transition_rows", _transition_rows, mutates_args=())


@_operator.register_fake
def _(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    recurrent: Tensor,
    hidden: Tensor,
    states: Tensor,
    used: Tensor | None,
) -> Tensor:
    return inputs.new_empty(inputs.shape[0], hidden.shape[0], states.shape[0])


def _transition_rows_backward(
    grad: Tensor,
    rows: Tensor,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    recurrent: Tensor,
    hidden: Tensor,
    states: Tensor,
    used: Tensor | None,
    needs_inputs: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the first six arguments of the forward pass; that of the inputs is empty where it is not needed."""
    count, (sources, d), k = len(inputs), hidden.shape, len(states)
    wide = 4 * sources + k + 3
    tile = _BACKWARD["M"]
    size = min(count, max(1, _PIECE_VALUES // (max(3 * tile, wide) * d)) * tile)
    grad = grad.contiguous()
    grad_inputs = torch.empty_like(inputs if needs_inputs else inputs[:0])
    grad_weight, sums = torch.zeros_like(weight), inputs.new_zeros(wide, d)
    buffer = inputs.new_empty(size, 3 * d)
    for begin in range(0, count, size or 1):
        piece = inputs[begin : begin + size]
        x = _project(piece, weight, bias, buffer[: len(piece)])
        tiles = triton.cdiv(len(piece), tile)
        shares = x.new_empty(tiles, wide, d)
        launch(
            _backward,
            tiles * triton.cdiv(d, _BACKWARD["C"]),
            (x, recurrent, hidden, states, rows[begin : begin + size], grad[begin : begin + size], shares, used),
            (len(piece), begin, sources),
            {"d": d, **_options(k), **_BACKWARD},
        )
        if needs_inputs:
            torch.mm(x, weight, out=grad_inputs[begin : begin + size])
        grad_weight.addmm_(x.T, piece)
        if used is None:
            sums += shares.sum(0)
        else:
            options = {"M": tile, "N": 256, "num_warps": 2}
            integers = (len(piece), begin, sums.numel())
            launch(_add_shares, triton.cdiv(sums.numel(), 256), (sums, shares, used), integers, options)
    of_sources, grad_states, grad_bias = sums.split([4 * sources, k, 3])
    of_sources = of_sources.view(sources, 4, d)
    return (  # copies, since an operator's results must not share memory
        grad_inputs,
        grad_weight,
        grad_bias.flatten().clone(),
        of_sources[:, :3].reshape(sources, 3 * d),
        of_sources[:, 3].clone(),
        grad_states.clone(),
    )


_backward_operator = torch.library.custom_op(
    "sttau::transition_rows_backward", _transition_rows_backward, mutates_args=()
)


@_backward_operator.register_fake
def _(
    grad: Tensor,
    rows: Tensor,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    recurrent: Tensor,
    hidden: Tensor,
    states: Tensor,
    used: Tensor | None,
    needs_inputs: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    new = torch.empty_like
    grad_inputs, grad_bias = new(inputs if needs_inputs else inputs[:0]), weight.new_empty(weight.shape[0])
    return grad_inputs, new(weight), grad_bias, new(recurrent), new(hidden), new(states)


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs, output)


@first_order
def _gradients(ctx, grad, operator=_backward_operator):
    *given, rows = ctx.saved_tensors
    grad_inputs, grad_weight, grad_bias, *others = operator(grad, rows, *given, ctx.needs_input_grad[0])
    return (
        grad_inputs if ctx.needs_input_grad[0] else None,
        grad_weight,
        None if given[2] is None else grad_bias,
        *others,
        None,
    )


_operator.register_autograd(_gradients, setup_context=_save)


class _TransitionRows(torch.autograd.Function):
    """The same without PyTorch's dispatcher, which takes longer than a short sequence."""

    @staticmethod
    def forward(ctx, *inputs):
        rows = _transition_rows(*inputs)
        _save(ctx, inputs, rows)
        return rows

    @staticmethod
    def backward(ctx, grad):
        return _gradients(ctx, grad, _transition_rows_backward)


def transition_rows(inputs: Tensor, hidden: Tensor, weights: Weights, used: Tensor | None = None) -> Tensor:
    """As :func:`sttau.engine.path_sum.transition_rows`, for hidden states (n, d) that all inputs share."""
    recurrent = F.linear(hidden, weights.recurrent, weights.recurrent_bias)
    tensors = (
        inputs.reshape(-1, inputs.shape[-1]),
        weights.input,
        weights.input_bias,
        recurrent,
        hidden,
        weights.states,
    )
    plain = (None if tensor is None else tensor.to(torch.float32).contiguous() for tensor in tensors)
    rows: Tensor = (_operator if torch.compiler.is_compiling() else _TransitionRows.apply)(*plain, used)
    return rows.to(inputs.dtype).reshape(*inputs.shape[:-1], *rows.shape[1:])
