"""The path sum on a GPU: the kernels behind :mod:`sttau.engine.exact`, which says what they compute.

Transition rows: a program owns a tile of inputs and walks over d in blocks, so that nothing of size inputs · k · d
leaves the chip. The projected input x W_xᵀ + b is one matrix product and exists for a piece of the inputs at a time.
What the backward pass keeps is A alone; it makes the gates again.

The scan: a sequence is cut into blocks. The product of each block is made first, in parallel; a program then comes to
its own block by multiplying a law (or a gradient message) with the products of the blocks before (or after) it, and
walks through it. Rows are normalized on the way, so that rounding does not accumulate.

Nothing is added up with atomics: results are the same from run to run. Numbers are float32; matrix products split them
in two TF32 numbers, which keeps about 21 bits.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from sttau.engine.launch import launch
from sttau.engine.reference import Weights

_PIECE_NUMBERS = 1 << 25  # of the projected input that exist at once
# How many inputs (M) and columns of d (C) a program holds at a time. Forward, 64 inputs fill the tensor cores;
# backward, 16 leave all rows of a column to one warp, so that sums over rows need no memory.
_FORWARD = {"M": 64, "C": 32, "num_warps": 4, "num_stages": 2}
_BACKWARD = {"M": 16, "C": 64, "num_warps": 4, "num_stages": 2}
_GROUP = 80  # logits of an input that a program holds
_SHORTEST = 16  # steps of a block of the scan
_CHANGING = ["count", "sources", "time", "blocks", "size"]  # never compiled for a value


# -- transition rows -------------------------------------------------------------------------------------------------


@triton.jit
def _sigmoid(x):
    y = tl.rsqrt(1 + tl.exp(-x))  # a division would be several instructions; this root is one
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


@triton.jit(do_not_specialize=_CHANGING)
def _rows_forward(
    x, recurrent, hidden, states, rows, count, sources,
    d: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, GROUP: tl.constexpr, M: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """A program makes the rows of M inputs from GROUP of the hidden states (``sources`` in all)."""
    groups = tl.cdiv(sources, GROUP)
    first = (tl.program_id(0) % groups) * GROUP
    begin = (tl.program_id(0) // groups).to(tl.int64) * M  # places in large tensors: 64 bits for the tile, 32 inside it
    m, j = tl.arange(0, M), tl.arange(0, KP)
    here = m < count - begin
    x += begin * (3 * d)
    rows += begin * sources * K
    logits = ()
    for _ in tl.static_range(GROUP):
        logits = logits + (tl.zeros([M, KP], tl.float32),)
    for start in range(0, d, C):
        c = start + tl.arange(0, C)
        on = here[:, None] & (c < d)[None, :]
        x_r, x_z, x_n = _load_three(x + m[:, None] * (3 * d) + c[None, :], on, d)
        # S is zero beyond d, so what u is there does not matter
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
        law = weight / tl.sum(weight, 1)[:, None]
        on = here[:, None] & (j < tl.where(i < sources, K, 0))[None, :]
        tl.store(rows + (m[:, None] * sources + i) * K + j[None, :], law, mask=on)


@triton.jit(do_not_specialize=_CHANGING)
def _rows_backward(
    x, recurrent, hidden, states, rows, grad, shares, count, sources,
    d: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, M: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """A program owns M inputs and C columns. The gradient of x takes the place of x; of other gradients it has a share.

    A tile's shares are 4 · sources rows for the three recurrent parts and h, k rows for S and 3 rows for the bias.
    """
    blocks: tl.constexpr = (d + C - 1) // C
    tile = (tl.program_id(0) // blocks).to(tl.int64)
    c = (tl.program_id(0) % blocks) * C + tl.arange(0, C)
    m, j = tl.arange(0, M), tl.arange(0, KP)
    here = m < count - tile * M
    on = here[:, None] & (c < d)[None, :]
    inside = here[:, None] & (j < K)[None, :]
    place = x + tile * (M * 3 * d) + (m[:, None] * (3 * d) + c[None, :])
    entry = m[:, None] * (sources * K) + j[None, :]
    rows += tile * M * sources * K
    grad += tile * M * sources * K
    shares += tile * (4 * sources + K + 3) * d + c
    pair = tl.arange(0, 2)
    part = (pair[None, :, None] + 2 * pair[None, None, :]) * d
    x_r, x_z, x_n = _load_three(place, on, d)
    S = tl.load(states + j[:, None] * d + c[None, :], mask=(j < K)[:, None] & (c < d)[None, :], other=0.0)
    # Adding an empty product brings x into the layout of products once, and not its gates at every turn of the loop.
    nothing = tl.zeros([M, KP], tl.float32)
    x_r = tl.dot(nothing, S, x_r, input_precision="tf32")
    x_z = tl.dot(nothing, S, x_z, input_precision="tf32")
    x_n = tl.dot(nothing, S, x_n, input_precision="tf32")
    d_r = tl.zeros([M, C], tl.float32)
    d_z = tl.zeros([M, C], tl.float32)
    d_n = tl.zeros([M, C], tl.float32)
    d_S = tl.zeros([KP, C], tl.float32)
    for i in range(sources):
        law = tl.load(rows + i * K + entry, mask=inside, other=0.0)
        slope = tl.load(grad + i * K + entry, mask=inside, other=0.0)
        slope = law * (slope - tl.sum(law * slope, 1)[:, None])
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
    tl.store(place, d_r, mask=on)
    tl.store(place + d, d_z, mask=on)
    tl.store(place + 2 * d, d_n, mask=on)
    shares += sources * (4 * d)
    tl.store(shares[None, :] + j[:, None] * d, d_S, mask=(j < K)[:, None] & (c < d)[None, :])
    tl.store(shares + K * d, tl.sum(d_r, 0), mask=c < d)
    tl.store(shares + (K + 1) * d, tl.sum(d_z, 0), mask=c < d)
    tl.store(shares + (K + 2) * d, tl.sum(d_n, 0), mask=c < d)


def _padded(k: int) -> int:
    return max(16, 1 << (k - 1).bit_length())  # the smallest side of a matrix product


def _options(k: int) -> dict[str, int]:
    return {"K": k, "KP": _padded(k), "maxnreg": 168 if k <= 16 else 255}  # 168 let three programs share a processor


def _project(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    return torch.mm(x, weight.T, out=out) if bias is None else torch.addmm(bias, x, weight.T, out=out)


def _transition_rows(
    inputs: Tensor, weight: Tensor, bias: Tensor | None, recurrent: Tensor, hidden: Tensor, states: Tensor
) -> Tensor:
    """(count, features), (3d, features), (3d,), (n, 3d), (n, d) and (k, d) give (count, n, k)."""
    count, (sources, d), k = len(inputs), hidden.shape, len(states)
    rows = inputs.new_empty(count, sources, k)
    group = max(1, _GROUP // _padded(k))
    group = -(-sources // -(-sources // group))  # groups of the same size, as far as that goes
    size = min(count, max(1, _PIECE_NUMBERS // (3 * d)))
    projected = inputs.new_empty(size, 3 * d)
    for begin in range(0, count, size or 1):
        piece = inputs[begin : begin + size]
        x = _project(piece, weight, bias, projected[: len(piece)])
        programs = triton.cdiv(len(piece), _FORWARD["M"]) * triton.cdiv(sources, group)
        tensors = (x, recurrent, hidden, states, rows[begin : begin + size])
        launch(
            _rows_forward, programs, tensors, (len(piece), sources), {"d": d, "GROUP": group, **_options(k), **_FORWARD}
        )
    return rows


_rows_operator = torch.library.custom_op("sttau::transition_rows", _transition_rows, mutates_args=())


@_rows_operator.register_fake
def _(inputs: Tensor, weight: Tensor, bias: Tensor | None, recurrent: Tensor, hidden: Tensor, states: Tensor) -> Tensor:
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
    needs_inputs: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the six arguments of the forward; that of the inputs is empty where it is not needed."""
    count, (sources, d), k = len(inputs), hidden.shape, len(states)
    wide = 4 * sources + k + 3
    tile = _BACKWARD["M"]
    size = min(count, max(1, _PIECE_NUMBERS // (max(3 * tile, wide) * d)) * tile)
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
            _rows_backward,
            tiles * triton.cdiv(d, _BACKWARD["C"]),
            (x, recurrent, hidden, states, rows[begin : begin + size], grad[begin : begin + size], shares),
            (len(piece), sources),
            {"d": d, **_options(k), **_BACKWARD},
        )
        if needs_inputs:
            torch.mm(x, weight, out=grad_inputs[begin : begin + size])
        grad_weight.addmm_(x.T, piece)
        sums += shares.sum(0)
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


_rows_gradient_operator = torch.library.custom_op(
    "sttau::transition_rows_backward", _transition_rows_backward, mutates_args=()
)


@_rows_gradient_operator.register_fake
def _(
    grad: Tensor,
    rows: Tensor,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    recurrent: Tensor,
    hidden: Tensor,
    states: Tensor,
    needs_inputs: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    new = torch.empty_like
    grad_inputs, grad_bias = new(inputs if needs_inputs else inputs[:0]), weight.new_empty(weight.shape[0])
    return grad_inputs, new(weight), grad_bias, new(recurrent), new(hidden), new(states)


def _keep_rows(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs, output)


def _rows_gradients(ctx, grad, operator=_rows_gradient_operator):
    *given, rows = ctx.saved_tensors
    grad_inputs, grad_weight, grad_bias, *others = operator(grad, rows, *given, ctx.needs_input_grad[0])
    return (
        grad_inputs if ctx.needs_input_grad[0] else None,
        grad_weight,
        None if given[2] is None else grad_bias,
        *others,
    )


_rows_operator.register_autograd(_rows_gradients, setup_context=_keep_rows)


class _Rows(torch.autograd.Function):
    """The same without the dispatcher, whose way takes longer than a short sequence."""

    @staticmethod
    def forward(ctx, *inputs):
        rows = _transition_rows(*inputs)
        _keep_rows(ctx, inputs, rows)
        return rows

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return _rows_gradients(ctx, grad, _transition_rows_backward)


def transition_rows(inputs: Tensor, hidden: Tensor, weights: Weights) -> Tensor:
    """As :func:`sttau.engine.exact.transition_rows`, for hidden states (n, d) that all inputs share."""
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
    rows: Tensor = (_rows_operator if torch.compiler.is_compiling() else _Rows.apply)(*plain)
    return rows.to(inputs.dtype).reshape(*inputs.shape[:-1], *rows.shape[1:])


# -- the scan --------------------------------------------------------------------------------------------------------


@triton.jit
def _place(lengths, time, blocks, size):
    """Which sequence and block a program owns, the block's first step, and where its valid steps and its steps end."""
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
def _follow(law, matrix):
    law = tl.sum(law[:, None] * matrix, 0)
    return law / tl.sum(law, 0)


@triton.jit(do_not_specialize=_CHANGING)
def _block_products(matrices, lengths, products, time, blocks, size, K: tl.constexpr, KP: tl.constexpr):
    """The product of the matrices of each block."""
    sequence, block, begin, valid, _end = _place(lengths, time, blocks, size)
    i = tl.arange(0, KP)
    product = tl.where((i[:, None] == i[None, :]) & (i < K)[None, :], 1.0, 0.0)
    source = matrices + sequence * time * (K * K)
    matrix = _load_matrix(source + begin * (K * K), begin < valid, K, KP)
    for t in range(begin, valid):
        following = _load_matrix(source + (t + 1) * (K * K), t + 1 < valid, K, KP)  # asked for a step before its use
        product = tl.dot(product, matrix, input_precision="tf32x3")
        matrix = following
    product = product / tl.where(i < K, tl.sum(product, 1), 1.0)[:, None]
    to = products + (sequence * blocks + block) * (K * K) + i[:, None] * K + i[None, :]
    tl.store(to, product, mask=(i < K)[:, None] & (i < K)[None, :])


@triton.jit(do_not_specialize=_CHANGING)
def _laws(first, matrices, lengths, products, laws, time, blocks, size, K: tl.constexpr, KP: tl.constexpr):
    """Come to the own block by the products of those before it, then walk through it."""
    sequence, block, begin, valid, end = _place(lengths, time, blocks, size)
    i = tl.arange(0, KP)
    law = tl.load(first + sequence * K + i, mask=i < K, other=0.0)
    to = laws + sequence * (time + 1) * K + i
    tl.store(to, law, mask=i < tl.where(block == 0, K, 0))

    source = products + sequence * blocks * (K * K)
    matrix = _load_matrix(source, block > 0, K, KP)
    for b in range(block):
        following = _load_matrix(source + (b + 1) * (K * K), b + 1 < block, K, KP)
        law = _follow(law, matrix)
        matrix = following
    source = matrices + sequence * time * (K * K)
    matrix = _load_matrix(source + begin * (K * K), begin < valid, K, KP)
    for t in range(begin, valid):
        following = _load_matrix(source + (t + 1) * (K * K), t + 1 < valid, K, KP)
        law = _follow(law, matrix)
        tl.store(to + (t + 1) * K, law, mask=i < K)
        matrix = following
    for t in range(valid, end):
        tl.store(to + (t + 1) * K, law, mask=i < K)


@triton.jit(do_not_specialize=_CHANGING)
def _block_messages(grad, matrices, lengths, messages, time, blocks, size, K: tl.constexpr, KP: tl.constexpr):
    """What the gradients of a block's own laws say about the law before it."""
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


@triton.jit(do_not_specialize=_CHANGING)
def _scan_backward(
    grad, matrices, lengths, products, messages, laws, grad_first, grad_matrices, time, blocks, size,
    K: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """Come to the own block by the messages of those after it, then walk through it backwards."""
    sequence, block, begin, valid, end = _place(lengths, time, blocks, size)
    i = tl.arange(0, KP)
    on = (i < K)[:, None] & (i < K)[None, :]
    message = tl.zeros([KP], tl.float32)
    for number in range(block + 1, blocks):
        b = sequence * blocks + (blocks + block - number)
        own = tl.load(messages + b * K + i, mask=i < K, other=0.0)
        product = _load_matrix(products + b * (K * K), number < blocks, K, KP)
        message = own + tl.sum(product * message[None, :], 1)
        # A constant in a message moves no law; without it, numbers stay small.
        message = tl.where(i < K, message - tl.sum(message, 0) / K, 0.0)

    slopes = grad + sequence * (time + 1) * K + i
    reached = laws + sequence * (time + 1) * K + i
    source = matrices + sequence * time * (K * K)
    to = grad_matrices + sequence * time * (K * K) + i[:, None] * K + i[None, :]
    for t in range(valid, end):
        message += tl.load(slopes + (t + 1) * K, mask=i < K, other=0.0)
        tl.store(to + t * (K * K), tl.zeros([KP, KP], tl.float32), mask=on)
    held = tl.load(reached + end * K, mask=i < tl.where(valid < end, K, 0), other=0.0)
    message -= tl.sum(message * held, 0)  # the gradient of the normalization, here of a law that is only held
    for number in range(begin, valid):
        t = begin + valid - 1 - number
        matrix = _load_matrix(source + t * (K * K), number < valid, K, KP)
        slope = tl.load(slopes + (t + 1) * K, mask=i < K, other=0.0)
        law = tl.load(reached + (t + 1) * K, mask=i < K, other=0.0)
        before = tl.load(reached + t * K, mask=i < K, other=0.0)
        message += slope
        message -= tl.sum(message * law, 0)
        tl.store(to + t * (K * K), before[:, None] * message[None, :], mask=on)
        message = tl.sum(matrix * message[None, :], 1)
    if block == 0:
        tl.store(grad_first + sequence * K + i, message + tl.load(slopes, mask=i < K, other=0.0), mask=i < K)


def _blocks(time: int) -> tuple[int, int]:
    """How many blocks, and of how many steps: about 2·√(2T) steps are then taken one after another."""
    size = max(_SHORTEST, math.isqrt(time // 2))
    return -(-time // size), size


def _room(batch: int, time: int, k: int) -> tuple[int, int, int, int]:
    """The shape that holds the products of any number of blocks; written so that ``time`` may be a symbol."""
    return batch, (time + _SHORTEST - 1) // _SHORTEST, k, k


def _scan_options(k: int) -> dict[str, int]:
    return {"K": k, "KP": _padded(k), "num_warps": 1 if k <= 16 else 4}


def _state_distribution(first: Tensor, matrices: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """(batch, k), (batch, time - 1, k, k) and (batch,) give the laws (batch, time, k) and the products of blocks."""
    batch, time, k, _ = matrices.shape
    blocks, size = _blocks(time)
    laws, products = first.new_empty(batch, time + 1, k), first.new_empty(_room(batch, time, k))
    programs, numbers, options = batch * blocks, (time, blocks, size), _scan_options(k)
    launch(_block_products, programs, (matrices, lengths, products), numbers, options)
    launch(_laws, programs, (first, matrices, lengths, products, laws), numbers, options)
    return laws, products


_laws_operator = torch.library.custom_op("sttau::state_distribution", _state_distribution, mutates_args=())


@_laws_operator.register_fake
def _(first: Tensor, matrices: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    batch, time, k, _ = matrices.shape
    return first.new_empty(batch, time + 1, k), first.new_empty(_room(batch, time, k))


def _state_distribution_backward(
    grad: Tensor, matrices: Tensor, lengths: Tensor | None, laws: Tensor, products: Tensor
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
    programs, numbers, options = batch * blocks, (time, blocks, size), _scan_options(k)
    launch(_block_messages, programs, (grad, matrices, lengths, messages), numbers, options)
    tensors = (grad, matrices, lengths, products, messages, laws, grad_first, grad_matrices)
    launch(_scan_backward, programs, tensors, numbers, options)
    return grad_first, grad_matrices


_laws_gradient_operator = torch.library.custom_op(
    "sttau::state_distribution_backward", _state_distribution_backward, mutates_args=()
)


@_laws_gradient_operator.register_fake
def _(grad: Tensor, matrices: Tensor, lengths: Tensor | None, laws: Tensor, products: Tensor) -> tuple[Tensor, Tensor]:
    return grad.new_empty(grad.shape[0], grad.shape[2]), torch.empty_like(matrices)


def _keep_laws(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs[1:], *output)


def _law_gradients(ctx, grad, _, operator=_laws_gradient_operator):
    return *operator(grad, *ctx.saved_tensors), None


_laws_operator.register_autograd(_law_gradients, setup_context=_keep_laws)


class _Laws(torch.autograd.Function):
    """The same without the dispatcher."""

    @staticmethod
    def forward(ctx, *inputs):
        results = _state_distribution(*inputs)
        _keep_laws(ctx, inputs, results)
        ctx.mark_non_differentiable(results[1])
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, unused):
        return _law_gradients(ctx, grad, unused, _state_distribution_backward)


def state_distribution(first: Tensor, matrices: Tensor, lengths: Tensor | None) -> Tensor:
    """As :func:`sttau.engine.exact.state_distribution`, for at least one matrix, of at most 32 states."""
    lengths = None if lengths is None else lengths.to(matrices.device)
    plain = (tensor.to(torch.float32).contiguous() for tensor in (first, matrices))
    laws: Tensor = (_laws_operator if torch.compiler.is_compiling() else _Laws.apply)(*plain, lengths)[0]
    return laws.to(matrices.dtype)
