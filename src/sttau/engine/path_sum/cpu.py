"""The path sum on a CPU, compiled by Numba: the matrices of all inputs, and the chain of distributions.

The projection of the inputs stays in PyTorch. A kernel computes the gates of an input for all hidden states and the
probabilities that follow from them, and the gates again in the backward pass, so that only the probabilities are kept.
A chain is one loop over its steps. Threads share inputs and sequences, whose values do not depend on each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from sttau.engine.path_sum.cpu_kernels import (
    chain_backward,
    chain_forward,
    matrix_gradients,
    rows_backward,
    rows_forward,
)
from sttau.engine.recurrence.reference import Weights
from sttau.engine.simd import Array, lanes_of
from sttau.engine.simd.arrays import as_array, as_integers, as_tensor, empty, filled, pad_last
from sttau.engine.simd.threads import ranges, run_all

_FLOAT32_STEPS = 256  # up to which float32 is accurate to about 1e-6
_NEVER = -1e30  # logit of a state that does not exist
_INPUTS = 512  # whose gradients are summed together, whatever the number of threads


def transition_rows(inputs: Tensor, hidden: Tensor, weights: Weights) -> Tensor:
    """As :func:`sttau.engine.path_sum.transition_rows`, for hidden states that all inputs share."""
    with torch.autocast("cpu", enabled=False):  # the kernels compute in float32 and float64
        x = F.linear(inputs, weights.input, weights.input_bias)
        recurrent = F.linear(hidden, weights.recurrent, weights.recurrent_bias)
        rows: Tensor = _Rows.apply(x.reshape(-1, x.shape[-1]), recurrent, hidden, weights.states)  # type: ignore[no-untyped-call]
        return rows.view(*inputs.shape[:-1], *rows.shape[1:])


def state_distribution(
    first: Tensor, matrices: Tensor, lengths: Tensor | None = None, places: Tensor | None = None
) -> Tensor:
    """As :func:`sttau.engine.path_sum.state_distribution`, for at least one step.

    Long chains of float32 matrices are computed in float64, with rows whose sums are 1 in float64 too; otherwise
    rounding, of the sums above all, would grow with the number of steps.
    """
    result: Tensor = _Chain.apply(first, matrices, lengths, places)  # type: ignore[no-untyped-call]
    return result


def _shares(size: int) -> list[tuple[int, int]]:
    return ranges(size, max(1, -(-size // torch.get_num_threads())))


class _Rows(torch.autograd.Function):
    """Projected inputs (n, 3 d), hidden states (rows, d) and S, (k, d), to probabilities (n, rows, k)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, recurrent: Tensor, hidden: Tensor, states: Tensor) -> Tensor:
        (n, _), (rows, d), k = x.shape, hidden.shape, len(states)
        given = [as_array(tensor).reshape(-1) for tensor in (x, recurrent, hidden)]
        out = empty(given[0], n * rows * k)
        lanes = lanes_of(out.itemsize)
        width = -(-k // lanes) * lanes
        across, mask = pad_last(as_array(states.T), width).reshape(-1), filled(out, _NEVER, width)
        mask[:k] = 0

        def work(some: tuple[int, int]) -> None:
            u, logits = empty(out, d), empty(out, width)
            rows_forward(*given, across, mask, u, logits, out, rows, d, k, *some)

        run_all(work, _shares(n), n * rows * d)
        result = as_tensor(out).view(n, rows, k)
        ctx.save_for_backward(x, recurrent, hidden, states, result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        x, recurrent, hidden, states, _ = ctx.saved_tensors
        (n, _), (rows, d), k = x.shape, hidden.shape, len(states)
        given = [as_array(tensor).reshape(-1) for tensor in (*ctx.saved_tensors, grad)]
        shares, learned = ranges(n, _INPUTS), (recurrent, hidden, states)
        grad_x = empty(given[0], n * 3 * d)
        parts = [[filled(given[0], 0, tensor.numel()) for tensor in learned] for _ in shares]

        def work(number: int) -> None:
            slopes = empty(grad_x, rows * k)
            rows_backward(*given, slopes, grad_x, *parts[number], rows, d, k, *shares[number])

        run_all(work, range(len(shares)), n * rows * d)
        sums = [as_tensor(_total([part[place] for part in parts])) for place in range(len(learned))]
        return as_tensor(grad_x).view(n, 3 * d), *(s.view_as(tensor) for s, tensor in zip(sums, learned, strict=True))


def _total(parts: list[Array]) -> Array:
    """The sum over groups of inputs, in their order."""
    return parts[0] if len(parts) == 1 else np.sum(parts, axis=0)


class _Chain(torch.autograd.Function):
    """π_1, (batch, k), and A_2 … A_T to all π_t: (batch, time, k)."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, matrices: Tensor, lengths: Tensor | None, places: Tensor | None) -> Tensor:
        (batch, k), steps = first.shape, matrices.shape[1] if places is None else places.shape[1]
        given, ctx.size = _accurate(as_array(matrices), steps)
        flat, numbers, ends = given.reshape(-1), as_integers(places), as_integers(lengths)
        pi, sums = empty(given, batch, steps + 1, k), empty(given, batch * steps)
        pi[:, 0] = as_array(first)
        all_pi, size = pi.reshape(-1), batch * steps * k * k
        run_all(lambda some: chain_forward(flat, numbers, ends, all_pi, sums, steps, k, *some), _shares(batch), size)
        ctx.save_for_backward(lengths, places)
        ctx.matrices, ctx.pi, ctx.sums = given, pi, sums
        return as_tensor(pi).to(first.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        lengths, places = ctx.saved_tensors
        matrices, pi = ctx.matrices, ctx.pi.reshape(-1)
        batch, time, k = grad.shape
        steps, size, count = time - 1, batch * (time - 1) * k * k, matrices.size // (k * k)
        across = np.ascontiguousarray(matrices.swapaxes(-1, -2)).reshape(-1)
        slopes = as_array(grad).astype(matrices.dtype, copy=False).reshape(-1)
        numbers, ends = as_integers(places), as_integers(lengths)
        grad_first, deltas = empty(matrices, batch * k), empty(matrices, batch * steps * k)

        def pass_back(some: tuple[int, int]) -> None:
            chain_backward(across, numbers, pi, slopes, ends, ctx.sums, grad_first, deltas, steps, k, *some)

        run_all(pass_back, _shares(batch), size)
        found = empty(matrices, *matrices.shape)
        flat, (order, last) = found.reshape(-1), _by_matrix(numbers, batch * steps, count)
        run_all(lambda some: matrix_gradients(pi, deltas, order, last, flat, steps, k, *some), _shares(count), size)
        if ctx.size is not None:
            found = (found - (found * matrices).sum(-1, keepdims=True)) / ctx.size
        return as_tensor(grad_first).view(batch, k).to(grad.dtype), as_tensor(found).to(grad.dtype), None, None


def _accurate(matrices: Array, steps: int) -> tuple[Array, Array | None]:
    """The matrices as a chain of so many steps needs them; and the sums of their rows, where it divides by them."""
    if matrices.dtype == np.float64 or steps <= _FLOAT32_STEPS:
        return matrices, None
    exact = matrices.astype(np.float64)
    sizes = exact.sum(-1, keepdims=True)
    return exact / sizes, sizes


def _by_matrix(numbers: Array, steps: int, matrices: int) -> tuple[Array, Array]:
    """All steps sorted by their matrix, and how many of them come before those of the next matrix."""
    if not numbers.size:
        return np.arange(steps), np.arange(1, steps + 1)
    return np.argsort(numbers, kind="stable"), np.bincount(numbers, minlength=matrices).cumsum()
