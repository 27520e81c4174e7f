"""The masked LSTM in Triton: a program owns sixteen rows and goes through all their steps.

W_h is read from cache at every step, in blocks, and multiplied in three parts of TF32, which is as accurate as float32.
What one step writes and the next reads (m ⊙ h forward, gradients of the gates backward) goes through memory, behind a
barrier, so that every thread of a program sees it.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS = 16  # rows per program: the fewest that a tensor core takes

_ANY_INTEGER = ["time", "rows"]
_ANY_ADDRESS = ["mask", "lengths", "grad_output"]


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit(do_not_specialize=_ANY_INTEGER, do_not_specialize_on_alignment=_ANY_ADDRESS)
def forward_kernel(
    gates, recurrent, mask, output, cells, dropped, time, rows,
    d: tl.constexpr, D: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """``recurrent`` is W_hᵀ, (d, 4 d). D is the next power of two to d; K units of h are multiplied at a time."""
    row = tl.program_id(0) * R + tl.arange(0, R)
    unit = tl.arange(0, D)
    here = row < rows
    on = here[:, None] & (unit < d)[None, :]
    keep = tl.load(mask + row[:, None] * d + unit[None, :], mask=on, other=0.0)
    c = tl.load(cells + row[:, None] * d + unit[None, :], mask=on, other=0.0)
    for t in range(time):
        place = (tl.cast(t, tl.int64) * rows + row)[:, None]
        at = gates + place * (4 * d) + unit[None, :]
        i = tl.load(at, mask=on, other=0.0)
        f = tl.load(at + d, mask=on, other=0.0)
        n = tl.load(at + 2 * d, mask=on, other=0.0)
        o = tl.load(at + 3 * d, mask=on, other=0.0)
        for start in range(0, d, K):
            k = start + tl.arange(0, K)
            h = tl.load(dropped + place * d + k[None, :], mask=here[:, None] & (k < d)[None, :], other=0.0)
            w = recurrent + k[:, None] * (4 * d) + unit[None, :]
            there = (k < d)[:, None] & (unit < d)[None, :]
            i = tl.dot(h, tl.load(w, mask=there, other=0.0), i, input_precision="tf32x3")
            f = tl.dot(h, tl.load(w + d, mask=there, other=0.0), f, input_precision="tf32x3")
            n = tl.dot(h, tl.load(w + 2 * d, mask=there, other=0.0), n, input_precision="tf32x3")
            o = tl.dot(h, tl.load(w + 3 * d, mask=there, other=0.0), o, input_precision="tf32x3")
        i = tl.sigmoid(i)
        f = tl.sigmoid(f)
        n = _tanh(n)
        o = tl.sigmoid(o)
        c = f * c + i * n
        h = o * _tanh(c)
        tl.store(at, i, mask=on)
        tl.store(at + d, f, mask=on)
        tl.store(at + 2 * d, n, mask=on)
        tl.store(at + 3 * d, o, mask=on)
        tl.store(output + place * d + unit[None, :], h, mask=on)
        after = (place + rows) * d + unit[None, :]
        tl.store(cells + after, c, mask=on)
        tl.store(dropped + after, h * keep, mask=on)
        tl.debug_barrier()


@triton.jit(do_not_specialize=_ANY_INTEGER, do_not_specialize_on_alignment=_ANY_ADDRESS)
def backward_kernel(
    gates, cells, recurrent, mask, lengths, grad_output, carried, delta, time, rows,
    d: tl.constexpr, D: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """``recurrent`` is W_h, (4 d, d); K gates are multiplied at a time."""
    row = tl.program_id(0) * R + tl.arange(0, R)
    unit = tl.arange(0, D)
    here = row < rows
    on = here[:, None] & (unit < d)[None, :]
    keep = tl.load(mask + row[:, None] * d + unit[None, :], mask=on, other=0.0)
    dc = tl.load(carried + row[:, None] * d + unit[None, :], mask=on, other=0.0)
    if lengths is not None:
        length = tl.load(lengths + row, mask=here, other=0)[:, None]
    for step in range(time):
        t = time - 1 - step
        place = (tl.cast(t, tl.int64) * rows + row)[:, None]
        dh = tl.zeros([R, D], tl.float32)
        for start in range(0, 4 * d, K):
            k = start + tl.arange(0, K)
            later = tl.load(
                delta + (place + rows) * (4 * d) + k[None, :], mask=here[:, None] & (k < 4 * d)[None, :], other=0.0
            )
            w = recurrent + k[:, None] * d + unit[None, :]
            there = (k < 4 * d)[:, None] & (unit < d)[None, :]
            dh = tl.dot(later, tl.load(w, mask=there, other=0.0), dh, input_precision="tf32x3")
        dh = dh * keep
        if grad_output is not None:
            dh += tl.load(grad_output + place * d + unit[None, :], mask=on, other=0.0)
        at = gates + place * (4 * d) + unit[None, :]
        i = tl.load(at, mask=on, other=0.0)
        f = tl.load(at + d, mask=on, other=0.0)
        n = tl.load(at + 2 * d, mask=on, other=0.0)
        o = tl.load(at + 3 * d, mask=on, other=0.0)
        before = tl.load(cells + place * d + unit[None, :], mask=on, other=0.0)
        tanh = _tanh(tl.load(cells + (place + rows) * d + unit[None, :], mask=on, other=0.0))
        if lengths is not None:  # beyond a row's length c is passed on unchanged
            valid = t < length
            dh = tl.where(valid, dh, 0.0)
            inner = tl.where(valid, dc + dh * o * (1 - tanh * tanh), 0.0)
            dc = tl.where(valid, inner * f, dc)
        else:
            inner = dc + dh * o * (1 - tanh * tanh)
            dc = inner * f
        into = delta + place * (4 * d) + unit[None, :]
        tl.store(into, inner * n * i * (1 - i), mask=on)
        tl.store(into + d, inner * before * f * (1 - f), mask=on)
        tl.store(into + 2 * d, inner * i * (1 - n * n), mask=on)
        tl.store(into + 3 * d, dh * tanh * o * (1 - o), mask=on)
        tl.debug_barrier()
    tl.store(carried + row[:, None] * d + unit[None, :], dc, mask=on)


def plan(size: int, matrices: int) -> dict[str, Any]:
    """Compile-time values for a layer of ``size`` units that reads this many blocks of W_h at a time."""
    block = max(16, triton.next_power_of_2(size))
    room = 200_000 // (4 * matrices * block)  # shared memory, in units that are multiplied at a time
    depth = 32 if room >= 64 else 16
    return {
        "d": size,
        "D": block,
        "R": _ROWS,
        "K": depth,
        "num_warps": 4 if block <= 64 else 8 if block <= 256 else 16,
        "num_stages": max(1, min(3, room // depth)),
    }


def forward(gates: Tensor, recurrent: Tensor, mask: Tensor, output: Tensor, cells: Tensor, dropped: Tensor) -> None:
    """As :func:`sttau.engine.masked.stepwise.forward`."""
    time, rows, _ = gates.shape
    buffers = (gates, recurrent.T.contiguous(), mask, output, cells, dropped)
    with _device(gates):
        forward_kernel[triton.cdiv(rows, _ROWS),](*buffers, time, rows, **plan(mask.shape[1], 4))


def backward(
    gates: Tensor,
    cells: Tensor,
    recurrent: Tensor,
    mask: Tensor,
    lengths: Tensor | None,
    grad_output: Tensor | None,
    carried: Tensor,
    delta: Tensor,
) -> None:
    """As :func:`sttau.engine.masked.stepwise.backward`."""
    time, rows, _ = gates.shape
    buffers = (gates, cells, recurrent.contiguous(), mask, lengths, grad_output, carried, delta)
    with _device(gates):
        backward_kernel[triton.cdiv(rows, _ROWS),](*buffers, time, rows, **plan(mask.shape[1], 1))


def _device(tensor: Tensor) -> Any:
    """Kernels run on the current GPU: make it the one that holds the tensors."""
    return torch.cuda.device_of(tensor)
