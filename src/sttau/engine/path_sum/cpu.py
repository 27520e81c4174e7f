"""The path sum on a CPU, compiled by Numba: the matrices of all inputs, and the chain of distributions.

The projection of the inputs stays in PyTorch. A kernel computes the gates of an input for all hidden states and the
probabilities that follow from them, and the gates again in the backward pass, so that only the probabilities are kept.
A chain is one loop over its steps. Threads share inputs and sequences, whose values do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.engine import backend
from sttau.engine.derivatives import first_order
from sttau.engine.path_sum.cpu_kernels import (
    chain_backward,
    chain_forward,
    matrix_gradients,
    number_tokens,
    rows_backward,
    rows_forward,
    sort_steps,
)
from sttau.engine.recurrence.reference import Weights
from sttau.engine.simd import Array, lanes_of
from sttau.engine.simd.arrays import as_array, as_integers, as_tensor, empty, filled, pad_last
from sttau.engine.simd.threads import ranges, run_all

Parts = tuple[tuple[int, int], ...]

_FLOAT32_STEPS = 256  # up to which float32 is accurate to about 1e-6
_NEVER = -1e30  # logit of a state that does not exist
_BUFFER = 1 << 14  # hidden units of the inputs that are computed together, so that they stay in the cache
_INPUTS = 512  # whose gradients are summed together, whatever the number of threads


def transition_rows(inputs: Tensor, hidden: Tensor, weights: Weights) -> Tensor:
    """As :func:`sttau.engine.path_sum.transition_rows`, for hidden states that all inputs share."""
    return _rows(hidden, weights, (inputs,), ((0, len(hidden)),))[0]


def first_and_matrices(first: Tensor, start: Tensor, inputs: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """As :func:`sttau.engine.path_sum.first_and_matrices`; what depends on the weights alone is computed once."""
    hidden = torch.cat([start, weights.states])
    rows, matrices = _rows(hidden, weights, (first, inputs), ((0, 1), (1, len(hidden))))
    return rows[..., 0, :], matrices


def _rows(hidden: Tensor, weights: Weights, inputs: Sequence[Tensor], parts: Parts) -> list[Tensor]:
    """Rows of probabilities for several sets of inputs, each from its part of the hidden states."""
    with backend.full_precision(hidden.device):  # the kernels compute in float32 and float64
        recurrent = F.linear(hidden, weights.recurrent, weights.recurrent_bias)
        given = _widened(weights.input, weights.input_bias, recurrent, hidden, weights.states)
        flat = [part.reshape(-1, part.shape[-1]) for part in inputs]
        found = _Rows.apply(parts, *given, *flat)  # type: ignore[no-untyped-call]
        return [rows.view(*part.shape[:-1], *rows.shape[1:]) for part, rows in zip(inputs, found, strict=True)]


def _widened(
    weight: Tensor, bias: Tensor | None, recurrent: Tensor, hidden: Tensor, states: Tensor
) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor]:
    """The same with as many hidden units as fill whole vectors; those that are added are always zero."""
    d = hidden.shape[-1]
    more = -d % lanes_of(hidden.element_size())
    if more == 0:
        return weight, bias, recurrent, hidden, states
    weight = F.pad(weight.unflatten(0, (3, d)), (0, 0, 0, more)).flatten(0, 1)
    bias = None if bias is None else F.pad(bias.view(3, d), (0, more)).flatten()
    recurrent = F.pad(recurrent.unflatten(-1, (3, d)), (0, more)).flatten(-2)
    return weight, bias, recurrent, F.pad(hidden, (0, more)), F.pad(states, (0, more))


def state_distribution(
    first: Tensor, matrices: Tensor, lengths: Tensor | None = None, places: Tensor | None = None
) -> Tensor:
    """As :func:`sttau.engine.path_sum.state_distribution`, for at least one step.

    Long chains of float32 matrices are computed in float64, with rows whose sums are 1 in float64 too; otherwise
    rounding, of the sums above all, would grow with the number of steps.
    """
    result: Tensor = _Chain.apply(first, matrices, lengths, places)  # type: ignore[no-untyped-call]
    return result


def distinct(tokens: Tensor, vocabulary: int) -> tuple[Tensor, Tensor]:
    """The tokens that occur, (n,), and the place of each token among them, as :func:`sttau.engine.path_sum.distinct`.

    It takes one pass over the vocabulary, where sorting would take one over the tokens for each of their bits.
    """
    given = as_integers(tokens)
    entries, places = np.empty(min(vocabulary, given.size), dtype=np.int64), np.empty_like(given)
    count = number_tokens(given, np.zeros(vocabulary, dtype=np.int64), entries, places)
    if count < 0:
        raise IndexError(f"token ids must be in 0 … {vocabulary - 1}, got {given.min()} … {given.max()}")
    return torch.from_numpy(entries[:count]), torch.from_numpy(places).view(tokens.shape)


def _shares(size: int) -> list[tuple[int, int]]:
    return ranges(size, max(1, -(-size // torch.get_num_threads())))


class _Rows(torch.autograd.Function):
    """Sets of inputs, (n, features), to probabilities (n, rows, k), from a part each of the hidden states.

    The other arguments are W_x and its bias, W_h h + b_h of the hidden states h, (rows, 3 d), h itself, and S, (k, d).
    """

    @staticmethod
    def forward(
        ctx: Any, parts: Parts, weight: Tensor, bias: Tensor | None, recurrent: Tensor, hidden: Tensor, states: Tensor,
        *inputs: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        d, k = hidden.shape[1], len(states)
        of_inputs, of_hidden = _flat(weight.T, _biased(bias, recurrent)), _flat(recurrent, hidden)
        lanes = lanes_of(of_inputs[0].itemsize)
        width = -(-k // lanes) * lanes
        across, mask = pad_last(as_array(states.T), width).reshape(-1), filled(of_inputs[0], _NEVER, width)
        mask[:k] = 0
        results = [
            _forward(part, of_inputs, _of(of_hidden, rows, d), across, mask, d, k)
            for part, rows in zip(inputs, parts, strict=True)
        ]
        ctx.parts, ctx.count = parts, len(inputs)
        ctx.save_for_backward(weight, bias, recurrent, hidden, states, *inputs, *results)
        return tuple(results)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight, bias, recurrent, hidden, states, *rest = ctx.saved_tensors
        inputs, results = rest[: ctx.count], rest[ctx.count :]
        of_inputs, of_hidden = _flat(weight.T, _biased(bias, recurrent)), _flat(recurrent, hidden)
        sums = [filled(of_inputs[0], 0, tensor.numel()) for tensor in (recurrent, hidden, states)]
        slopes = [
            _backward(
                _flat(part, result, grad), of_inputs, _of(of_hidden, rows, hidden.shape[1]), as_array(states),
                [*_of(sums[:2], rows, hidden.shape[1]), sums[2]],
            )
            for part, result, grad, rows in zip(inputs, results, grads, ctx.parts, strict=True)
        ]  # fmt: skip
        return (
            None,
            _total([x.T @ part for x, part in zip(slopes, inputs, strict=True)]),
            None if bias is None else _total([x.sum(0) for x in slopes]),
            *(as_tensor(s).view_as(tensor) for s, tensor in zip(sums, (recurrent, hidden, states), strict=True)),
            *(x @ weight if needed else None for x, needed in zip(slopes, ctx.needs_input_grad[6:], strict=True)),
        )


def _forward(
    inputs: Tensor, of_inputs: list[Array], of_hidden: list[Array], across: Array, mask: Array, d: int, k: int
) -> Tensor:
    """Probabilities (n, rows, k) of one set of inputs."""
    n, rows = len(inputs), of_hidden[1].size // d
    given, out = as_array(inputs).reshape(-1), empty(across, n * rows * k)
    together = _together(n, rows * d)

    def work(some: tuple[int, int]) -> None:
        buffers = _cut(across, together * 3 * d, together * rows * d, together * rows * mask.size)
        rows_forward(given, *of_inputs, *of_hidden, across, mask, *buffers, out, rows, d, k, *some)

    run_all(work, _shares(n), n * rows * d)
    return torch.from_numpy(out).view(n, rows, k)


def _backward(
    given: list[Array], of_inputs: list[Array], of_hidden: list[Array], states: Array, sums: list[Array]
) -> Tensor:
    """Gradient of the projected inputs, (n, 3 d); those of W_h h + b_h, h and S are added to ``sums``.

    ``given`` is the inputs, their probabilities and the gradients of these.
    """
    inputs, result, grad = given
    k, d = states.shape
    n, rows = result.size // (of_hidden[1].size // d * k), of_hidden[1].size // d
    grad_x, nothing = empty(states, n, 3 * d), filled(states, 0, 4 * lanes_of(states.itemsize))
    shares, together = ranges(n, _INPUTS), _together(n, rows * d)
    parts = [sums if len(shares) == 1 else [np.zeros_like(whole) for whole in sums] for _ in shares]

    def work(number: int) -> None:
        sizes = (3 * d, rows * 3 * d, rows * d, rows * d, rows * k)
        rows_backward(
            inputs, *of_inputs, *of_hidden, states.reshape(-1), result, grad,
            *_cut(states, *(together * size for size in sizes)), nothing, grad_x.reshape(-1), *parts[number],
            rows, d, k, *shares[number],
        )  # fmt: skip

    run_all(work, range(len(shares)), n * rows * d)
    for part in parts if len(shares) > 1 else ():  # in their order, whatever the number of threads
        for whole, some in zip(sums, part, strict=True):
            whole += some
    return torch.from_numpy(grad_x)


def _of(arrays: Sequence[Array], rows: tuple[int, int], d: int) -> list[Array]:
    """The part of some hidden states in flat arrays (rows, 3 d) and (rows, d)."""
    low, high = rows
    return [arrays[0][low * 3 * d : high * 3 * d], arrays[1][low * d : high * d]]


def _cut(like: Array, *sizes: int) -> list[Array]:
    """Buffers of these sizes, in one piece of memory."""
    ends = list(accumulate(sizes))
    whole = empty(like, ends[-1])
    return [whole[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _total(parts: list[Tensor]) -> Tensor:
    """The sum of tensors."""
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


def _together(inputs: int, units: int) -> int:
    """How many inputs, of so many hidden units each, are computed together: their rows fill tiles of 8."""
    return min(inputs, max(8, min(24, _BUFFER // units // 8 * 8)))


def _flat(*tensors: Tensor) -> list[Array]:
    return [as_array(tensor).reshape(-1) for tensor in tensors]


def _biased(bias: Tensor | None, recurrent: Tensor) -> Tensor:
    """The bias of the inputs, zero if there is none."""
    return torch.zeros_like(recurrent[0]) if bias is None else bias


class _Chain(torch.autograd.Function):
    """π_1, (batch, k), and A_2 … A_T to all π_t: (batch, time, k)."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, matrices: Tensor, lengths: Tensor | None, places: Tensor | None) -> Tensor:
        (batch, k), steps = first.shape, matrices.shape[1] if places is None else places.shape[1]
        given, ctx.size = _accurate(as_array(matrices), steps)
        flat, numbers, ends = given.reshape(-1), as_integers(places), as_integers(lengths)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(matrices):
            raise IndexError(f"places must be in 0 … {len(matrices) - 1}, got {numbers.min()} … {numbers.max()}")
        pi, sums = empty(given, batch, steps + 1, k), empty(given, batch * steps)
        pi[:, 0] = as_array(first)
        all_pi, size = pi.reshape(-1), batch * steps * k * k

        def work(some: tuple[int, int]) -> None:
            chain_forward(flat, numbers, ends, all_pi, sums, _one_row(flat, k), steps, k, *some)

        run_all(work, _shares(batch), size)
        ctx.save_for_backward(lengths, places)
        ctx.matrices, ctx.pi, ctx.sums = given, pi, sums
        return as_tensor(pi).to(first.dtype)

    @staticmethod
    @first_order
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


def _one_row(like: Array, k: int) -> Array:
    """A buffer for k values, rounded up to whole vectors."""
    lanes = lanes_of(like.itemsize)
    return empty(like, -(-k // lanes) * lanes)


def _by_matrix(numbers: Array, steps: int, matrices: int) -> tuple[Array, Array]:
    """All steps sorted by their matrix, and how many of them come before those of the next matrix."""
    if not numbers.size:
        return np.arange(steps), np.arange(1, steps + 1)
    order, ends = np.empty_like(numbers), np.zeros(matrices, dtype=np.int64)
    sort_steps(numbers, order, ends)
    return order, ends
