"""What a step of ``stacked.py`` does besides its product, as one kernel forward and one backward."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sttau.engine.launch import launch

_BLOCK = 256


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit(do_not_specialize=["size"])
def forward_kernel(gates, before, cell, hidden, mask, dropped, size, d: tl.constexpr, BLOCK: tl.constexpr):
    """Gates are (rows, 4 d), all else (rows, d): ``size`` numbers."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    on = place < size
    at = gates + (place // d) * (4 * d) + place % d
    i = tl.sigmoid(tl.load(at, mask=on, other=0.0))
    f = tl.sigmoid(tl.load(at + d, mask=on, other=0.0))
    n = _tanh(tl.load(at + 2 * d, mask=on, other=0.0))
    o = tl.sigmoid(tl.load(at + 3 * d, mask=on, other=0.0))
    c = f * tl.load(before + place, mask=on, other=0.0) + i * n
    h = o * _tanh(c)
    tl.store(at, i, mask=on)
    tl.store(at + d, f, mask=on)
    tl.store(at + 2 * d, n, mask=on)
    tl.store(at + 3 * d, o, mask=on)
    tl.store(cell + place, c, mask=on)
    tl.store(hidden + place, h, mask=on)
    if mask is not None:
        tl.store(dropped + place, h * tl.load(mask + place, mask=on, other=0.0), mask=on)


@triton.jit(do_not_specialize=["size"])
def backward_kernel(
    gates, before, cell, grad_output, grad, carried, delta, mask, size, d: tl.constexpr, BLOCK: tl.constexpr
):
    """Shapes as forward; ``carried`` is read and written."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    on = place < size
    row = (place // d) * (4 * d) + place % d
    at = gates + row
    i = tl.load(at, mask=on, other=0.0)
    f = tl.load(at + d, mask=on, other=0.0)
    n = tl.load(at + 2 * d, mask=on, other=0.0)
    o = tl.load(at + 3 * d, mask=on, other=0.0)
    tanh = _tanh(tl.load(cell + place, mask=on, other=0.0))
    dh = tl.load(grad + place, mask=on, other=0.0)
    if mask is not None:
        dh = dh * tl.load(mask + place, mask=on, other=0.0)
    dh += tl.load(grad_output + place, mask=on, other=0.0)
    dc = tl.load(carried + place, mask=on, other=0.0) + dh * o * (1 - tanh * tanh)
    into = delta + row
    tl.store(into, dc * n * i * (1 - i), mask=on)
    tl.store(into + d, dc * tl.load(before + place, mask=on, other=0.0) * f * (1 - f), mask=on)
    tl.store(into + 2 * d, dc * i * (1 - n * n), mask=on)
    tl.store(into + 3 * d, dh * tanh * o * (1 - o), mask=on)
    tl.store(carried + place, dc * f, mask=on)


def forward(gates: Tensor, before: Tensor, mask: Tensor | None, cell: Tensor, hidden: Tensor, dropped: Tensor) -> None:
    """As ``stacked._Plain.forward``."""
    tensors = (gates, before, cell, hidden, mask, None if mask is None else dropped)
    _start(forward_kernel, tensors, cell)


def backward(
    gates: Tensor,
    before: Tensor,
    cell: Tensor,
    mask: Tensor | None,
    grad_output: Tensor,
    grad: Tensor,
    carried: Tensor,
    delta: Tensor,
) -> None:
    """As ``stacked._Plain.backward``."""
    _start(backward_kernel, (gates, before, cell, grad_output, grad, carried, delta, mask), cell)


def _start(kernel: object, tensors: tuple[Tensor | None, ...], like: Tensor) -> None:
    size = like.numel()
    options = {"d": like.shape[-1], "BLOCK": _BLOCK, "num_warps": 4}
    with torch.cuda.device_of(like):
        launch(kernel, triton.cdiv(size, _BLOCK), tensors, (size,), options)
