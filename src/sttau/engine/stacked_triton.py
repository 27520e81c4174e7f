"""The steps of ``stacked.py``: a program makes them for some units of some rows of one network.

What one step writes the next one reads. Where a program has all units of its rows it makes all steps, behind barriers;
else a step ends with its kernel, and captured in a CUDA graph a start takes no longer than the step itself. W_h is read
from the cache of the GPU at every step, as much of it as a program needs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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


_ANY_NUMBER = ["t0", "t1", "time", "rows"]


@triton.jit(do_not_specialize=_ANY_NUMBER)
def forward_kernel(
    gates, weight, cells, hidden, mask, dropped, t0, t1, time, rows,
    d: tl.constexpr, R: tl.constexpr, U: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Steps t0 to t1. ``weight`` is W_hᵀ, (networks, d, 4 d); ``gates`` holds the projected input, and then the gates.

    ``dropped`` is m ⊙ h, or ``hidden`` where there is no mask; K units of it are multiplied at a time.
    """
    network, row, unit = _place(rows, d, R, U)
    here = row < rows
    on = here[:, None] & (unit < d)[None, :]
    if mask is not None:
        keep = tl.load(mask + (network * rows + row)[:, None] * d + unit[None, :], mask=on, other=0.0)
    c = tl.load(cells + ((network * (time + 1) + t0) * rows + row)[:, None] * d + unit[None, :], mask=on, other=0.0)
    for t in range(t0, t1):
        line = (network * time + t) * rows + row
        before = (network * (time + 1) + t) * rows + row  # in buffers with an extra slot
        at = gates + line[:, None] * (4 * d) + unit[None, :]
        x_i = tl.load(at, mask=on, other=0.0)  # they arrive during the products
        x_f = tl.load(at + d, mask=on, other=0.0)
        x_n = tl.load(at + 2 * d, mask=on, other=0.0)
        x_o = tl.load(at + 3 * d, mask=on, other=0.0)
        i = tl.zeros([R, U], tl.float32)
        f = tl.zeros([R, U], tl.float32)
        n = tl.zeros([R, U], tl.float32)
        o = tl.zeros([R, U], tl.float32)
        for start in range(0, d, K):
            k = start + tl.arange(0, K)
            h = tl.load(dropped + before[:, None] * d + k[None, :], mask=here[:, None] & (k < d)[None, :], other=0.0)
            w = weight + (network * d + k)[:, None] * (4 * d) + unit[None, :]
            there = (k < d)[:, None] & (unit < d)[None, :]
            i = tl.dot(h, tl.load(w, mask=there, other=0.0), i, input_precision=PRECISION)
            f = tl.dot(h, tl.load(w + d, mask=there, other=0.0), f, input_precision=PRECISION)
            n = tl.dot(h, tl.load(w + 2 * d, mask=there, other=0.0), n, input_precision=PRECISION)
            o = tl.dot(h, tl.load(w + 3 * d, mask=there, other=0.0), o, input_precision=PRECISION)
        i = tl.sigmoid(x_i + i)
        f = tl.sigmoid(x_f + f)
        n = _tanh(x_n + n)
        o = tl.sigmoid(x_o + o)
        c = f * c + i * n
        h_new = o * _tanh(c)
        after = (before + rows)[:, None] * d + unit[None, :]
        tl.store(hidden + after, h_new, mask=on)
        if mask is not None:
            tl.store(dropped + after, h_new * keep, mask=on)
        tl.debug_barrier()
        tl.store(cells + after, c, mask=on)
        tl.store(at, i, mask=on)
        tl.store(at + d, f, mask=on)
        tl.store(at + 2 * d, n, mask=on)
        tl.store(at + 3 * d, o, mask=on)


@triton.jit(do_not_specialize=_ANY_NUMBER)
def backward_kernel(
    gates, weight, cells, grad, ends, carried, delta, mask, t0, t1, time, rows,
    d: tl.constexpr, R: tl.constexpr, U: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Steps t1 to t0. ``weight`` is W_h, (networks, 4 d, d); ``carried``, the gradient of c, is read and written."""
    network, row, unit = _place(rows, d, R, U)
    here = row < rows
    on = here[:, None] & (unit < d)[None, :]
    own = (network * rows + row)[:, None] * d + unit[None, :]  # in buffers without time
    if mask is not None:
        keep = tl.load(mask + own, mask=on, other=0.0)
    end = tl.load(ends + network * rows + row, mask=here, other=0)[:, None]
    last = tl.load(grad + own, mask=on, other=0.0)
    dc = tl.load(carried + own, mask=on, other=0.0)
    for step in range(t1 - t0):
        t = t1 - 1 - step
        line = (network * time + t) * rows + row
        gate = line[:, None] * (4 * d) + unit[None, :]
        at = gates + gate
        i = tl.load(at, mask=on, other=0.0)  # they arrive during the products
        f = tl.load(at + d, mask=on, other=0.0)
        n = tl.load(at + 2 * d, mask=on, other=0.0)
        o = tl.load(at + 3 * d, mask=on, other=0.0)
        place = ((network * (time + 1) + t) * rows + row)[:, None] * d + unit[None, :]
        before = tl.load(cells + place, mask=on, other=0.0)
        now = tl.load(cells + place + rows * d, mask=on, other=0.0)
        dh = tl.zeros([R, U], tl.float32)
        for start in range(0, tl.where(t + 1 < time, 4 * d, 0), K):
            k = start + tl.arange(0, K)
            x = tl.load(
                delta + (line + rows)[:, None] * (4 * d) + k[None, :],
                mask=here[:, None] & (k < 4 * d)[None, :],
                other=0.0,
            )
            w = weight + (network * 4 * d + k)[:, None] * d + unit[None, :]
            there = (k < 4 * d)[:, None] & (unit < d)[None, :]
            dh = tl.dot(x, tl.load(w, mask=there, other=0.0), dh, input_precision=PRECISION)
        if mask is not None:
            dh = dh * keep
        dh += tl.where(end == t + 1, last, 0.0)
        tanh = _tanh(now)
        dc += dh * o * (1 - tanh * tanh)
        into = delta + gate
        tl.store(into, dc * n * i * (1 - i), mask=on)
        tl.store(into + d, dc * before * f * (1 - f), mask=on)
        tl.store(into + 2 * d, dc * i * (1 - n * n), mask=on)
        tl.store(into + 3 * d, dh * tanh * o * (1 - o), mask=on)
        tl.debug_barrier()
        dc = dc * f
    tl.store(carried + own, dc, mask=on)


def forward(gates: Tensor, weight: Tensor, mask: Tensor | None, cells: Tensor, hidden: Tensor, dropped: Tensor) -> None:
    """As ``stacked._Plain.forward``."""
    _, time, rows, _ = gates.shape
    programs, at_once, options = plan(gates, FORWARD)
    tensors = (gates, weight.mT.contiguous(), cells, hidden, mask, dropped)
    with torch.cuda.device_of(gates):
        for t in range(0, time, at_once):
            launch(forward_kernel, programs, tensors, (t, t + at_once, time, rows), options)


def backward(
    gates: Tensor, weight: Tensor, mask: Tensor | None, cells: Tensor, grad: Tensor, ends: Tensor, delta: Tensor
) -> None:
    """As ``stacked._Plain.backward``."""
    _, time, rows, _ = gates.shape
    programs, at_once, options = plan(gates, BACKWARD)
    tensors = (gates, weight.contiguous(), cells, grad, ends, torch.zeros_like(grad), delta, mask)
    with torch.cuda.device_of(gates):
        for t in range(time, 0, -at_once):
            launch(backward_kernel, programs, tensors, (t - at_once, t, time, rows), options)


class Plan(NamedTuple):
    """How the work is cut: rows and units of a program, and how much is multiplied at a time."""

    R: int
    U: int
    K: int
    num_warps: int
    num_stages: int


#: A step at a time, for networks with few rows; for larger ones all steps, of R or 2 R rows.
FORWARD = {"few": Plan(16, 32, 64, 4, 3), "many": Plan(16, 0, 32, 8, 3)}
BACKWARD = {"few": Plan(16, 32, 128, 4, 3), "many": Plan(16, 0, 64, 8, 3)}
_FEW = 32
_WIDEST = 128  # network whose programs can have all units
_PROGRAMS = 132  # that an H100 runs at a time


def plan(gates: Tensor, plans: dict[str, Plan]) -> tuple[int, int, dict[str, Any]]:
    """How many programs there are, how many steps they make, and their compile-time values."""
    networks, time, rows, width = gates.shape
    d = width // 4
    whole = rows > _FEW and d <= _WIDEST
    R, U, K, warps, stages = plans["many" if whole else "few"]
    if whole:
        U = max(16, triton.next_power_of_2(d))
        R = R if networks * triton.cdiv(rows, R) <= _PROGRAMS else 2 * R
    programs = networks * triton.cdiv(rows, R) * triton.cdiv(d, U)
    precision = "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"
    cut = {"R": R, "U": U, "K": K, "PRECISION": precision}
    return programs, time if whole else 1, {"d": d, **cut, "num_warps": warps, "num_stages": stages}
