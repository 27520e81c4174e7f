"""The gradient of a table of matrices: each is used by some steps of a batch, whose outer products are summed."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sttau.engine.launch import launch
from sttau.engine.path_sum.triton_common import ANY_INTEGER, padded


@triton.jit
def _add_products(
    total, distributions, deltas, order, begin, end, time, columns, K: tl.constexpr, KP: tl.constexpr, N: tl.constexpr
):  # fmt: skip
    """Add the outer products of the steps from one place in ``order`` to another, N at a time."""
    i = tl.arange(0, KP)
    for some in range(begin, end, N):
        n = some + tl.arange(0, N)
        step = tl.load(order + n, mask=n < end, other=0).to(tl.int64)
        before = distributions + (step + step // time)[:, None] * K + i[None, :]
        delta = deltas + step[:, None] * K + columns[None, :]
        there = (n < end)[:, None]
        before = tl.load(before, mask=there & (i < K)[None, :], other=0.0)
        delta = tl.load(delta, mask=there & (columns < K)[None, :], other=0.0)
        total = tl.dot(tl.trans(before), delta, total, input_precision="tf32x3")
    return total


@triton.jit(do_not_specialize=ANY_INTEGER)
def _matrix_gradients(
    distributions, deltas, order, bounds, grad_matrices, time,
    K: tl.constexpr, KP: tl.constexpr, C: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """C columns of the gradient of one matrix, summed over the steps that use it: ``order`` between two bounds."""
    parts: tl.constexpr = (K + C - 1) // C
    own = (tl.program_id(0) // parts).to(tl.int64)
    columns = (tl.program_id(0) % parts) * C + tl.arange(0, C)
    begin = tl.load(bounds + own)
    end = tl.load(bounds + own + 1)
    if begin < end:
        i = tl.arange(0, KP)
        total = tl.zeros([KP, C], tl.float32)
        whole = begin + (end - begin) // N * N  # frequent matrices have many steps, most have a few
        total = _add_products(total, distributions, deltas, order, begin, whole, time, columns, K, KP, N)
        total = _add_products(total, distributions, deltas, order, whole, end, time, columns, K, KP, 16)
        to = grad_matrices + own * (K * K) + i[:, None] * K + columns[None, :]
        tl.store(to, total, mask=(i < K)[:, None] & (columns < K)[None, :])


def table_gradient(distributions: Tensor, deltas: Tensor, places: Tensor, matrices: Tensor) -> Tensor:
    """The gradient of matrices (n, k, k), of which steps (batch, time) use those at ``places``.

    Args:
        distributions: (batch, time + 1, k), π before and after the steps.
        deltas: (batch, time, k), the gradient of π after each step.
        places: (batch, time).
        matrices: The matrices.
    """
    k, gradient = deltas.shape[-1], torch.zeros_like(matrices)  # zero for a matrix that is not used
    order, bounds = _by_matrix(places, len(matrices))
    columns = min(64, padded(k))
    options = {"K": k, "KP": padded(k), "C": columns, "N": 64 if k <= 64 else 32, "num_warps": 4 if k <= 64 else 8}
    tensors = (distributions, deltas, order, bounds, gradient)
    launch(_matrix_gradients, len(matrices) * triton.cdiv(k, columns), tensors, (places.shape[1],), options)
    return gradient


def _by_matrix(places: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """All steps sorted by their matrix; and how many of them come before those of each matrix, and in all."""
    numbers, order = places.flatten().to(torch.int16 if count < 2**15 else torch.int32).sort(stable=True)
    return order, torch.searchsorted(numbers, torch.arange(count + 1, device=places.device, dtype=numbers.dtype))
