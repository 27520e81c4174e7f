"""A step of ``stacked.py`` as one kernel: a program makes it for some units of some rows of one network.

What one step writes the next one reads, so a step ends with its kernel; captured in a CUDA graph, a start takes no
longer than the step itself. W_h is read from the cache of the GPU, a part of it by every program.
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


_ANY_NUMBER = ["t", "time", "rows"]


@triton.jit(do_not_specialize=_ANY_NUMBER)
def forward_kernel(
    gates, weight, cells, hidden, mask, dropped, t, time, rows,
    d: tl.constexpr, R: tl.constexpr, U: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Step t of all. ``weight`` is W_hᵀ, (networks, d, 4 d); ``gates`` holds the projected input, and then the gates.

    ``dropped`` is m ⊙ h, or ``hidden`` where there is no mask; K units of it are multiplied at a time.
    """
    network, row, unit = _place(rows, d, R, U)
    here = row < rows
    on = here[:, None] & (unit < d)[None, :]
    line = (network * time + t) * rows + row
    before = (network * (time + 1) + t) * rows + row  # in buffers with an extra slot
    at = gates + line[:, None] * (4 * d) + unit[None, :]
    i = tl.load(at, mask=on, other=0.0)
    f = tl.load(at + d, mask=on, other=0.0)
    n = tl.load(at + 2 * d, mask=on, other=0.0)
    o = tl.load(at + 3 * d, mask=on, other=0.0)
    for start in range(0, d, K):
        k = start + tl.arange(0, K)
        h = tl.load(dropped + before[:, None] * d + k[None, :], mask=here[:, None] & (k < d)[None, :], other=0.0)
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
    place = before[:, None] * d + unit[None, :]
    after = place + rows * d
    c = f * tl.load(cells + place, mask=on, other=0.0) + i * n
    h_new = o * _tanh(c)
    tl.store(at, i, mask=on)
    tl.store(at + d, f, mask=on)
    tl.store(at + 2 * d, n, mask=on)
    tl.store(at + 3 * d, o, mask=on)
    tl.store(cells + after, c, mask=on)
    tl.store(hidden + after, h_new, mask=on)
    if mask is not None:
        keep = tl.load(mask + (network * rows + row)[:, None] * d + unit[None, :], mask=on, other=0.0)
        tl.store(dropped + after, h_new * keep, mask=on)


@triton.jit(do_not_specialize=_ANY_NUMBER)
def backward_kernel(
    gates, weight, cells, grad_output, carried, delta, mask, t, time, rows,
    d: tl.constexpr, R: tl.constexpr, U: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Step t of all. ``weight`` is W_h, (networks, 4 d, d); ``carried``, the gradient of c, is read and written."""
    network, row, unit = _place(rows, d, R, U)
    here = row < rows
    on = here[:, None] & (unit < d)[None, :]
    line = (network * time + t) * rows + row
    own = (network * rows + row)[:, None] * d + unit[None, :]  # in buffers without time
    dh = tl.zeros([R, U], tl.float32)
    if t + 1 < time:
        for start in range(0, 4 * d, K):
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
            dh = dh * tl.load(mask + own, mask=on, other=0.0)
    dh += tl.load(grad_output + line[:, None] * d + unit[None, :], mask=on, other=0.0)
    gate = line[:, None] * (4 * d) + unit[None, :]
    at = gates + gate
    i = tl.load(at, mask=on, other=0.0)
    f = tl.load(at + d, mask=on, other=0.0)
    n = tl.load(at + 2 * d, mask=on, other=0.0)
    o = tl.load(at + 3 * d, mask=on, other=0.0)
    place = ((network * (time + 1) + t) * rows + row)[:, None] * d + unit[None, :]
    before = tl.load(cells + place, mask=on, other=0.0)
    tanh = _tanh(tl.load(cells + place + rows * d, mask=on, other=0.0))
    dc = tl.load(carried + own, mask=on, other=0.0) + dh * o * (1 - tanh * tanh)
    into = delta + gate
    tl.store(into, dc * n * i * (1 - i), mask=on)
    tl.store(into + d, dc * before * f * (1 - f), mask=on)
    tl.store(into + 2 * d, dc * i * (1 - n * n), mask=on)
    tl.store(into + 3 * d, dh * tanh * o * (1 - o), mask=on)
    tl.store(carried + own, dc * f, mask=on)


def forward(gates: Tensor, weight: Tensor, mask: Tensor | None, cells: Tensor, hidden: Tensor, dropped: Tensor) -> None:
    """As ``stacked._Plain.forward``."""
    _, time, rows, _ = gates.shape
    programs, options = plan(gates, FORWARD)
    tensors = (gates, weight.mT.contiguous(), cells, hidden, mask, dropped)
    with torch.cuda.device_of(gates):
        for t in range(time):
            launch(forward_kernel, programs, tensors, (t, time, rows), options)


def backward(
    gates: Tensor, weight: Tensor, mask: Tensor | None, cells: Tensor, grad_output: Tensor, delta: Tensor
) -> None:
    """As ``stacked._Plain.backward``."""
    _, time, rows, _ = gates.shape
    programs, options = plan(gates, BACKWARD)
    tensors = (gates, weight.contiguous(), cells, grad_output, torch.zeros_like(cells[:, 0]), delta, mask)
    with torch.cuda.device_of(gates):
        for t in range(time - 1, -1, -1):
            launch(backward_kernel, programs, tensors, (t, time, rows), options)


class Plan(NamedTuple):
    """How the work of a step is cut: rows and units of a program, and how much is multiplied at a time."""

    R: int
    U: int
    K: int
    num_warps: int
    num_stages: int


#: By whether a network has few rows or many.
FORWARD = {"few": Plan(16, 32, 64, 4, 3), "many": Plan(64, 32, 32, 4, 3)}
BACKWARD = {"few": Plan(16, 32, 128, 4, 3), "many": Plan(64, 32, 32, 4, 3)}


def plan(gates: Tensor, plans: dict[str, Plan]) -> tuple[int, dict[str, Any]]:
    """How many programs a step has, and their compile-time values."""
    networks, _, rows, width = gates.shape
    d = width // 4
    chosen = plans["few" if rows <= 32 else "many"]
    precision = "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"
    programs = networks * triton.cdiv(rows, chosen.R) * triton.cdiv(d, chosen.U)
    cut = {"R": chosen.R, "U": chosen.U, "K": chosen.K, "PRECISION": precision}
    return programs, {"d": d, **cut, "num_warps": chosen.num_warps, "num_stages": chosen.num_stages}
