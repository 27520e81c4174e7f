"""A step of ``stacked.py`` as one kernel: a program makes it for some units of some rows of one network.

What one step writes the next one reads, so a step ends with its kernel; captured in a CUDA graph, a start takes no
longer than the step itself. W_h is read from the cache of the GPU, a part of it by every program.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from sttau.engine.launch import launch


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _place(rows, d: tl.constexpr, R: tl.constexpr, U: tl.constexpr):
    """The network, rows and units of this program."""
    units = (d + U - 1) // U
    blocks = (rows + R - 1) // R
    network = tl.program_id(0) // (units * blocks)
    row = tl.program_id(0) // units % blocks * R + tl.arange(0, R)
    unit = tl.program_id(0) % units * U + tl.arange(0, U)
    return tl.cast(network, tl.int64), row, unit


@triton.jit(do_not_specialize=["rows"])
def forward_kernel(
    gates, weight, before, cell, last, hidden, mask, dropped, rows,
    d: tl.constexpr, R: tl.constexpr, U: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``weight`` is W_hᵀ, (networks, d, 4 d); ``gates`` holds the projected input, and then the gates.

    ``last`` is m ⊙ h of the step before; K units of it are multiplied at a time.
    """
    network, row, unit = _place(rows, d, R, U)
    here = row < rows
    on = here[:, None] & (unit < d)[None, :]
    line = network * rows + row
    place = line[:, None] * d + unit[None, :]
    at = gates + line[:, None] * (4 * d) + unit[None, :]
    i = tl.load(at, mask=on, other=0.0)
    f = tl.load(at + d, mask=on, other=0.0)
    n = tl.load(at + 2 * d, mask=on, other=0.0)
    o = tl.load(at + 3 * d, mask=on, other=0.0)
    for start in range(0, d, K):
        k = start + tl.arange(0, K)
        h = tl.load(last + line[:, None] * d + k[None, :], mask=here[:, None] & (k < d)[None, :], other=0.0)
        w = weight + (network * d + k)[:, None] * (4 * d) + unit[None, :]
        there = (k < d)[:, None] & (unit < d)[None, :]
        i = tl.dot(h, tl.load(w, mask=there, other=0.0), i, input_precision=PRECISION)
        f = tl.dot(h, tl.load(w + d, mask=there, other=0.0), f, input_precision=PRECISION)
        n = tl.dot(h, tl.load(w + 2 * d, mask=there, other=0.0), n, input_precision=PRECISION)
        o = tl.dot(h, tl.load(w + 3 * d, mask=there, other=0.0), o, input_precision=PRECISION)
    i = tl.sigmoid(i)
    f = tl.sigmoid(f)
    n = _tanh(n)
    o = tl.sigmoid(o)
    c = f * tl.load(before + place, mask=on, other=0.0) + i * n
    h_new = o * _tanh(c)
    tl.store(at, i, mask=on)
    tl.store(at + d, f, mask=on)
    tl.store(at + 2 * d, n, mask=on)
    tl.store(at + 3 * d, o, mask=on)
    tl.store(cell + place, c, mask=on)
    tl.store(hidden + place, h_new, mask=on)
    if mask is not None:
        tl.store(dropped + place, h_new * tl.load(mask + place, mask=on, other=0.0), mask=on)


@triton.jit(do_not_specialize=["rows"])
def backward_kernel(
    gates, weight, before, cell, grad_output, carried, delta, mask, later, rows,
    d: tl.constexpr, R: tl.constexpr, U: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``weight`` is W_h, (networks, 4 d, d); ``later`` is ``delta`` of the step after, if there is one."""
    network, row, unit = _place(rows, d, R, U)
    here = row < rows
    on = here[:, None] & (unit < d)[None, :]
    line = network * rows + row
    place = line[:, None] * d + unit[None, :]
    dh = tl.zeros([R, U], tl.float32)
    if later is not None:
        for start in range(0, 4 * d, K):
            k = start + tl.arange(0, K)
            x = tl.load(
                later + line[:, None] * (4 * d) + k[None, :], mask=here[:, None] & (k < 4 * d)[None, :], other=0.0
            )
            w = weight + (network * 4 * d + k)[:, None] * d + unit[None, :]
            there = (k < 4 * d)[:, None] & (unit < d)[None, :]
            dh = tl.dot(x, tl.load(w, mask=there, other=0.0), dh, input_precision=PRECISION)
        if mask is not None:
            dh = dh * tl.load(mask + place, mask=on, other=0.0)
    dh += tl.load(grad_output + place, mask=on, other=0.0)
    row_at = line[:, None] * (4 * d) + unit[None, :]
    at = gates + row_at
    i = tl.load(at, mask=on, other=0.0)
    f = tl.load(at + d, mask=on, other=0.0)
    n = tl.load(at + 2 * d, mask=on, other=0.0)
    o = tl.load(at + 3 * d, mask=on, other=0.0)
    tanh = _tanh(tl.load(cell + place, mask=on, other=0.0))
    dc = tl.load(carried + place, mask=on, other=0.0) + dh * o * (1 - tanh * tanh)
    into = delta + row_at
    tl.store(into, dc * n * i * (1 - i), mask=on)
    tl.store(into + d, dc * tl.load(before + place, mask=on, other=0.0) * f * (1 - f), mask=on)
    tl.store(into + 2 * d, dc * i * (1 - n * n), mask=on)
    tl.store(into + 3 * d, dh * tanh * o * (1 - o), mask=on)
    tl.store(carried + place, dc * f, mask=on)


def forward(gates: Tensor, weight: Tensor, mask: Tensor | None, cells: Tensor, hidden: Tensor, dropped: Tensor) -> None:
    """As ``stacked._Plain.forward``."""
    turned = weight.mT.contiguous()
    programs, rows, options = _plan(gates)
    with torch.cuda.device_of(gates):
        for t in range(len(gates)):
            tensors = (gates[t], turned, cells[t], cells[t + 1], dropped[t], hidden[t + 1], mask)
            launch(forward_kernel, programs, (*tensors, None if mask is None else dropped[t + 1]), (rows,), options)


def backward(
    gates: Tensor, weight: Tensor, mask: Tensor | None, cells: Tensor, grad_output: Tensor, delta: Tensor
) -> None:
    """As ``stacked._Plain.backward``."""
    carried = torch.zeros_like(cells[0])
    programs, rows, options = _plan(gates)
    last = len(gates) - 1
    with torch.cuda.device_of(gates):
        for t in range(last, -1, -1):
            tensors = (gates[t], weight, cells[t], cells[t + 1], grad_output[t], carried, delta[t], mask)
            launch(backward_kernel, programs, (*tensors, None if t == last else delta[t + 1]), (rows,), options)


def _plan(gates: Tensor) -> tuple[int, int, dict[str, Any]]:
    """Programs, rows of a network, and compile-time values."""
    _, networks, rows, width = gates.shape
    d = width // 4
    size, units = (16, 32) if rows <= 16 else (32, 32) if rows <= 64 else (64, 32)
    options = {
        "d": d,
        "R": size,
        "U": units,
        "K": 32,
        "PRECISION": "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3",
        "num_warps": 4,
        "num_stages": 3,
    }
    return networks * triton.cdiv(rows, size) * triton.cdiv(d, units), rows, options
