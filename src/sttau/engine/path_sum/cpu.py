"""The path sum on a CPU, compiled by Numba: the gates of all rows, and the chain of distributions.

The matrix products around the gates stay in PyTorch. The gates, which are most of the work, are computed in one pass,
and again in the backward pass, so that only u is kept. A chain is one loop over its steps;
threads share inputs and sequences, whose values do not depend on each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sttau.engine.path_sum import reference
from sttau.engine.path_sum.cpu_kernels import chain_backward, chain_forward, gates_backward, gates_forward
from sttau.engine.recurrence.reference import Weights
from sttau.engine.simd import Array
from sttau.engine.simd.arrays import as_array, as_integers, as_tensor, empty, filled
from sttau.engine.simd.threads import ranges, run_all

_FLOAT32_STEPS = 256  # up to which float32 is accurate to about 1e-6
_INPUTS = 512  # whose gradients are summed together, whatever the number of threads


def transition_rows(inputs: Tensor, hidden: Tensor, weights: Weights) -> Tensor:
    """As :func:`sttau.engine.path_sum.transition_rows`, for hidden states that all inputs share."""
    with torch.autocast("cpu", enabled=False):  # the kernels compute in float32 and float64
        return reference.transition_rows(inputs, hidden, weights, update=_update)


def state_distribution(first: Tensor, matrices: Tensor, lengths: Tensor | None = None) -> Tensor:
    """As :func:`sttau.engine.path_sum.state_distribution`, for at least one matrix.

    Long chains of float32 matrices are computed in float64, with rows whose sums are 1 in float64 too; otherwise
    rounding, of the sums above all, would grow with the number of steps.
    """
    dtype = first.dtype
    if dtype != torch.float64 and matrices.shape[1] > _FLOAT32_STEPS:
        first, matrices = first.double(), matrices.double()
        matrices = matrices / matrices.sum(-1, keepdim=True)
    result: Tensor = _Chain.apply(first, matrices, lengths)  # type: ignore[no-untyped-call]
    return result.to(dtype)


def _update(x: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    """As :func:`sttau.engine.recurrence.reference.gru_update`, for x of shape (..., 1, 3 d)."""
    rows, d = hidden.shape
    u: Tensor = _Gates.apply(x.reshape(-1, 3 * d), recurrent, hidden)  # type: ignore[no-untyped-call]
    return u.view(*x.shape[:-2], rows, d)


def _shares(size: int) -> list[tuple[int, int]]:
    return ranges(size, max(1, -(-size // torch.get_num_threads())))


class _Gates(torch.autograd.Function):
    """u of all inputs (n, 3 d) from all hidden states (rows, d): (n, rows, d)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
        ctx.save_for_backward(x, recurrent, hidden)
        (n, _), (rows, d) = x.shape, hidden.shape
        given = [as_array(tensor).reshape(-1) for tensor in (x, recurrent, hidden)]
        u = empty(given[0], n * rows * d)
        run_all(lambda some: gates_forward(*given, u, rows, d, *some), _shares(n), n * rows * d)
        return as_tensor(u).view(n, rows, d)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, recurrent, hidden = ctx.saved_tensors
        (n, _), (rows, d) = x.shape, hidden.shape
        given = [as_array(tensor).reshape(-1) for tensor in (x, recurrent, hidden, grad)]
        shares = ranges(n, _INPUTS)
        grad_x = filled(given[0], 0, n * 3 * d)
        parts = [(filled(given[0], 0, rows * 3 * d), filled(given[0], 0, rows * d)) for _ in shares]

        def work(number: int) -> None:
            gates_backward(*given, grad_x, *parts[number], rows, d, *shares[number])

        run_all(work, range(len(shares)), n * rows * d)
        of_recurrent, of_hidden = (as_tensor(_total([part[place] for part in parts])) for place in range(2))
        return as_tensor(grad_x).view(n, 3 * d), of_recurrent.view(rows, -1), of_hidden.view(rows, d)


def _total(parts: list[Array]) -> Array:
    """The sum over groups of inputs, in their order."""
    return parts[0] if len(parts) == 1 else np.sum(parts, axis=0)


class _Chain(torch.autograd.Function):
    """π_1, (batch, k), and A_2 … A_T, (batch, time - 1, k, k), to all π_t: (batch, time, k)."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, matrices: Tensor, lengths: Tensor | None) -> Tensor:
        batch, steps, k, _ = matrices.shape
        given, ends = as_array(matrices).reshape(-1), as_integers(lengths)
        pi, sums = empty(given, batch, steps + 1, k), empty(given, batch * steps)
        pi[:, 0] = as_array(first)
        flat = pi.reshape(-1)
        run_all(lambda some: chain_forward(given, ends, flat, sums, steps, k, *some), _shares(batch), matrices.numel())
        result = as_tensor(pi)
        ctx.save_for_backward(matrices, result, lengths)
        ctx.sums = sums
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        matrices, pi, lengths = ctx.saved_tensors
        batch, steps, k, _ = matrices.shape
        given = [as_array(tensor).reshape(-1) for tensor in (matrices, pi, grad)]
        grad_first, grad_matrices = empty(given[0], batch, k), empty(given[0], matrices.numel())
        ends, flat = as_integers(lengths), grad_first.reshape(-1)

        def work(some: tuple[int, int]) -> None:
            buffer = empty(given[0], (some[1] - some[0] + 1) * k)
            chain_backward(*given, ends, ctx.sums, flat, grad_matrices, buffer, steps, k, *some)

        run_all(work, _shares(batch), matrices.numel())
        return as_tensor(grad_first), as_tensor(grad_matrices).view(matrices.shape), None
