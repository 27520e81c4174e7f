"""The steps of stacked LSTMs as Triton kernels, in two forms.

The weights of a small layer (128 units, on an H100) fit into one multiprocessor as float16, which has as many digits as
TF32. There a program computes all steps of some rows, and what a step needs of the previous one never leaves it
(``resident``). Gradients are scaled into the range of float16, row by row.

Otherwise a program computes one step for some units of some rows, and reads its part of W_h from the GPU's cache. One
step writes what the next one reads, so every step is a kernel; captured in a CUDA graph, a launch takes no longer than
the step itself.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from sttau.engine.launch import launch

_ANY_INTEGER = ["t", "time", "rows"]


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


@triton.jit
def _load_four(at, on, step: tl.constexpr):
    """The values of the gates i, f, n and o, which are ``step`` elements apart."""
    return (
        tl.load(at, mask=on, other=0.0),
        tl.load(at + step, mask=on, other=0.0),
        tl.load(at + 2 * step, mask=on, other=0.0),
        tl.load(at + 3 * step, mask=on, other=0.0),
    )


@triton.jit
def _store_four(at, on, step: tl.constexpr, i, f, n, o):
    tl.store(at, i, mask=on)
    tl.store(at + step, f, mask=on)
    tl.store(at + 2 * step, n, mask=on)
    tl.store(at + 3 * step, o, mask=on)


@triton.jit(do_not_specialize=_ANY_INTEGER)
def forward_resident(
    gates, weight, cells, hidden, mask, dropped, time, rows,
    d: tl.constexpr, R: tl.constexpr, U: tl.constexpr,
):  # fmt: skip
    """All steps. ``weight`` is W_hᵀ, (networks, d, 4 d) in float16; the rest as in :func:`forward_step`.

    U is the next power of two to d. The projected input of the next step is loaded a step before.
    """
    network, row, unit = _place(rows, d, R, U)
    own = unit < d
    on = (row < rows)[:, None] & own[None, :]
    w = _load_four(weight + (network * d + unit)[:, None] * (4 * d) + unit[None, :], own[:, None] & own[None, :], d)
    if mask is not None:
        keep = tl.load(mask + (network * rows + row)[:, None] * d + unit[None, :], mask=on, other=0.0)
    c = tl.zeros([R, U], tl.float32)
    h = tl.zeros([R, U], tl.float16)
    x = _load_four(gates + (network * time * rows + row)[:, None] * (4 * d) + unit[None, :], on, d)
    for t in range(time):
        at = gates + ((network * time + t) * rows + row)[:, None] * (4 * d) + unit[None, :]
        coming = (
            gates + ((network * time + tl.minimum(t + 1, time - 1)) * rows + row)[:, None] * (4 * d) + unit[None, :]
        )
        following = _load_four(coming, on, d)
        i = tl.sigmoid(x[0] + tl.dot(h, w[0]))
        f = tl.sigmoid(x[1] + tl.dot(h, w[1]))
        n = _tanh(x[2] + tl.dot(h, w[2]))
        o = tl.sigmoid(x[3] + tl.dot(h, w[3]))
        c = f * c + i * n
        out = o * _tanh(c)
        after = ((network * (time + 1) + t + 1) * rows + row)[:, None] * d + unit[None, :]
        tl.store(cells + after, c, mask=on)
        tl.store(hidden + after, out, mask=on)
        if mask is not None:
            out = out * keep
            tl.store(dropped + after, out, mask=on)
        h = out.to(tl.float16)
        _store_four(at, on, d, i, f, n, o)
        x = following


@triton.jit(do_not_specialize=_ANY_INTEGER)
def backward_resident(
    gates, weight, cells, grad, ends, delta, mask, time, rows,
    d: tl.constexpr, R: tl.constexpr, U: tl.constexpr,
):  # fmt: skip
    """All steps, the last first. ``weight`` is W_h, (networks, 4 d, d) in float16; else as :func:`backward_step`."""
    network, row, unit = _place(rows, d, R, U)
    own = unit < d
    here = row < rows
    on = here[:, None] & own[None, :]
    w = _load_four(weight + (network * 4 * d + unit)[:, None] * d + unit[None, :], own[:, None] & own[None, :], d * d)
    place = (network * rows + row)[:, None] * d + unit[None, :]  # in buffers without time
    if mask is not None:
        keep = tl.load(mask + place, mask=on, other=0.0)
    end = tl.load(ends + network * rows + row, mask=here, other=0)[:, None]
    dc = tl.zeros([R, U], tl.float32)
    dh = tl.zeros([R, U], tl.float32)
    last = (network * (time + 1) + time) * rows + row
    now = tl.load(cells + last[:, None] * d + unit[None, :], mask=on, other=0.0)
    x = _load_four(gates + (last - (network + 1) * rows)[:, None] * (4 * d) + unit[None, :], on, d)
    for step in range(time):
        t = time - 1 - step
        gate = ((network * time + t) * rows + row)[:, None] * (4 * d) + unit[None, :]
        coming = gates + ((network * time + tl.maximum(t - 1, 0)) * rows + row)[:, None] * (4 * d) + unit[None, :]
        following = _load_four(coming, on, d)
        i, f, n, o = x
        slot = (network * (time + 1) + t) * rows + row
        before = tl.load(cells + slot[:, None] * d + unit[None, :], mask=on, other=0.0)
        dh += tl.load(grad + place, mask=on & (end == t + 1), other=0.0)
        tanh = _tanh(now)
        dc += dh * o * (1 - tanh * tanh)
        d_i = dc * n * i * (1 - i)
        d_f = dc * before * f * (1 - f)
        d_n = dc * i * (1 - n * n)
        d_o = dh * tanh * o * (1 - o)
        _store_four(delta + gate, on, d, d_i, d_f, d_n, d_o)
        largest = tl.maximum(tl.maximum(tl.abs(d_i), tl.abs(d_f)), tl.maximum(tl.abs(d_n), tl.abs(d_o)))
        top = tl.max(largest, axis=1)[:, None]
        scale = 1 / tl.maximum(top, 1e-37)
        dh = tl.dot((d_i * scale).to(tl.float16), w[0])
        dh = tl.dot((d_f * scale).to(tl.float16), w[1], dh)
        dh = tl.dot((d_n * scale).to(tl.float16), w[2], dh)
        dh = tl.dot((d_o * scale).to(tl.float16), w[3], dh)
        dh = dh * top
        if mask is not None:
            dh = dh * keep
        dc = dc * f
        now = before
        x = following


@triton.jit(do_not_specialize=_ANY_INTEGER)
def forward_step(
    gates, weight, cells, hidden, mask, dropped, t, time, rows,
    d: tl.constexpr, R: tl.constexpr, U: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Step t of all. ``weight`` is W_hᵀ, (networks, d, 4 d); ``gates`` holds the projected input, then the gates.

    ``dropped`` is m ⊙ h, or ``hidden`` where there is no mask; K units of it are multiplied at a time.
    """
    network, row, unit = _place(rows, d, R, U)
    here = row < rows
    on = here[:, None] & (unit < d)[None, :]
    before = (network * (time + 1) + t) * rows + row  # in buffers with an extra slot
    at = gates + ((network * time + t) * rows + row)[:, None] * (4 * d) + unit[None, :]
    x = _load_four(at, on, d)  # they arrive during the products
    c = tl.load(cells + before[:, None] * d + unit[None, :], mask=on, other=0.0)
    if mask is not None:
        keep = tl.load(mask + (network * rows + row)[:, None] * d + unit[None, :], mask=on, other=0.0)
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
    i = tl.sigmoid(x[0] + i)
    f = tl.sigmoid(x[1] + f)
    n = _tanh(x[2] + n)
    o = tl.sigmoid(x[3] + o)
    c = f * c + i * n
    out = o * _tanh(c)
    after = (before + rows)[:, None] * d + unit[None, :]
    tl.store(cells + after, c, mask=on)
    tl.store(hidden + after, out, mask=on)
    if mask is not None:
        tl.store(dropped + after, out * keep, mask=on)
    _store_four(at, on, d, i, f, n, o)


@triton.jit(do_not_specialize=_ANY_INTEGER)
def backward_step(
    gates, weight, cells, grad, ends, carried, delta, mask, t, time, rows,
    d: tl.constexpr, R: tl.constexpr, U: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Step t of all. ``weight`` is W_h, (networks, 4 d, d); ``carried``, the gradient of c, is read and written."""
    network, row, unit = _place(rows, d, R, U)
    here = row < rows
    on = here[:, None] & (unit < d)[None, :]
    line = (network * time + t) * rows + row
    gate = line[:, None] * (4 * d) + unit[None, :]
    i, f, n, o = _load_four(gates + gate, on, d)  # they arrive during the products
    place = ((network * (time + 1) + t) * rows + row)[:, None] * d + unit[None, :]
    before = tl.load(cells + place, mask=on, other=0.0)
    now = tl.load(cells + place + rows * d, mask=on, other=0.0)
    own = (network * rows + row)[:, None] * d + unit[None, :]  # in buffers without time
    dc = tl.load(carried + own, mask=on, other=0.0)
    end = tl.load(ends + network * rows + row, mask=here, other=0)[:, None]
    last = tl.load(grad + own, mask=on & (end == t + 1), other=0.0)
    if mask is not None:
        keep = tl.load(mask + own, mask=on, other=0.0)
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
    dh += last
    tanh = _tanh(now)
    dc += dh * o * (1 - tanh * tanh)
    _store_four(
        delta + gate,
        on,
        d,
        dc * n * i * (1 - i),
        dc * before * f * (1 - f),
        dc * i * (1 - n * n),
        dh * tanh * o * (1 - o),
    )
    tl.store(carried + own, dc * f, mask=on)


class Plan(NamedTuple):
    """How the work of a step is divided: rows and units per program, and the depth of a product."""

    R: int
    U: int
    K: int
    num_warps: int
    num_stages: int


class ResidentPlan(NamedTuple):
    """How the work of all steps is divided: rows per program."""

    R: int
    num_warps: int


#: For networks with few rows and with many.
FORWARD = (Plan(16, 32, 64, 4, 3), Plan(32, 64, 32, 4, 3))
BACKWARD = (Plan(16, 32, 128, 4, 3), Plan(64, 32, 32, 4, 3))
RESIDENT_FORWARD = ResidentPlan(16, 16)
RESIDENT_BACKWARD = ResidentPlan(16, 8)
_WORKSPACE = 16_384  # bytes that a program needs besides W_h
_FEW = 32  # rows of a network; with so few, most of the GPU would be idle if programs did not share units


def forward(gates: Tensor, weight: Tensor, mask: Tensor | None, cells: Tensor, hidden: Tensor, dropped: Tensor) -> None:
    """As :func:`sttau.engine.stacked.reference.forward`."""
    _, time, rows, _ = gates.shape
    weight = weight.mT.contiguous()
    with torch.cuda.device_of(gates):
        if _fits(gates):
            programs, options = _divide_resident(gates, RESIDENT_FORWARD)
            tensors = (gates, weight.to(torch.float16), cells, hidden, mask, dropped)
            launch(forward_resident, programs, tensors, (time, rows), options)
            return
        programs, options = _divide(gates, FORWARD)
        for t in range(time):
            launch(forward_step, programs, (gates, weight, cells, hidden, mask, dropped), (t, time, rows), options)


def backward(
    gates: Tensor, weight: Tensor, mask: Tensor | None, cells: Tensor, grad: Tensor, ends: Tensor, delta: Tensor
) -> None:
    """As :func:`sttau.engine.stacked.reference.backward`."""
    _, time, rows, _ = gates.shape
    weight = weight.contiguous()
    with torch.cuda.device_of(gates):
        if _fits(gates):
            programs, options = _divide_resident(gates, RESIDENT_BACKWARD)
            tensors = (gates, weight.to(torch.float16), cells, grad, ends, delta, mask)
            launch(backward_resident, programs, tensors, (time, rows), options)
            return
        programs, options = _divide(gates, BACKWARD)
        carried = torch.zeros_like(grad)
        for t in range(time - 1, -1, -1):
            tensors = (gates, weight, cells, grad, ends, carried, delta, mask)
            launch(backward_step, programs, tensors, (t, time, rows), options)


@cache
def _shared(device: torch.device) -> int:
    """Bytes of shared memory that a multiprocessor can give to a program."""
    if device.type != "cuda":
        return 232_448  # of an H100, so that the interpreter takes the same path
    shared: int = triton.runtime.driver.active.utils.get_device_properties(device.index)["max_shared_mem"]
    return shared


def _fits(gates: Tensor) -> bool:
    """Whether W_h fits into shared memory, rounded as TF32 would round it."""
    size = triton.next_power_of_2(gates.shape[3] // 4)
    room = _shared(gates.device) - _WORKSPACE
    return gates.shape[2] > _FEW and 8 * size * size <= room and torch.backends.cudnn.allow_tf32


def _divide_resident(gates: Tensor, plan: ResidentPlan) -> tuple[int, dict[str, Any]]:
    """The number of programs, and their compile-time values."""
    networks, _, rows, width = gates.shape
    size = max(16, triton.next_power_of_2(width // 4))
    sizes = {"d": width // 4, "R": plan.R, "U": size}
    return networks * triton.cdiv(rows, plan.R), sizes | {"num_warps": plan.num_warps, "num_stages": 1}


def _divide(gates: Tensor, plans: tuple[Plan, Plan]) -> tuple[int, dict[str, Any]]:
    networks, _, rows, width = gates.shape
    d, plan = width // 4, plans[rows > _FEW]
    precision = "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"
    sizes = {"d": d, "R": plan.R, "U": plan.U, "K": plan.K, "PRECISION": precision}
    programs = networks * triton.cdiv(rows, plan.R) * triton.cdiv(d, plan.U)
    return programs, sizes | {"num_warps": plan.num_warps, "num_stages": plan.num_stages}
