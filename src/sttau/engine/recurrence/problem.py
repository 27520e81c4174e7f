"""The factored recurrence: what a fast engine must compute.

h_{t-1} is a mixture of k states, so the recurrent product never needs the d × d matrix:

    W_h h_{t-1} + b_h = Uᵀ α_{t-1},    U = S W_hᵀ + b_h    (k × G·d; Σ α = 1, so the bias can be part of every row)

A :class:`Problem` is one layer in one direction in this form. An engine is two functions, ``forward(problem, keep)``
and ``backward(problem, results, …)``, and ``projected_shape(problem, keep)``, the shape of ``Results.projected``;
``cpu.py`` and ``triton.py`` have them. ``autograd.py`` makes them part of PyTorch's graph.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Problem(NamedTuple):
    """One layer in one direction, time first; row r reads sequence r mod B; G is 4 (LSTM) or 3 (GRU)."""

    x: Tensor  # (T, B, F) features; with ``index``, (V, F): one vector for every token
    index: Tensor | None  # type: ignore[assignment]  # (T, B) int64: which vector a step reads
    input: Tensor  # (G·d, F)
    input_bias: Tensor | None  # (G·d,)
    recurrent: Tensor  # U, (k, G·d)
    states: Tensor  # S, (k, d)
    temperature: Tensor  # τ, a scalar
    peephole: Tensor | None  # (3, d)
    start: Tensor  # (1 or rows, G·d): W_h h_0 + b_h, which replaces Uᵀ α at a row's first step
    first: Tensor  # (1 or rows, d): c_0 of an LSTM, h_0 of a GRU
    lengths: Tensor | None  # (B,) int64
    seed: Tensor | None  # scalar int64; the three are None in deterministic mode
    sequence: Tensor | None  # (rows,) int64
    sample: Tensor | None  # (rows,) int64
    rows: int
    first_step: int
    layer: int
    cell: str
    mode: str
    reverse: bool
    read: str  # which u_t to return: "none", "last" or "all"


class Results(NamedTuple):
    """What ``forward`` returns; the last three are only for ``backward``."""

    alpha: Tensor  # (T, rows, k): the α of h_t; zero beyond a row's length
    output: Tensor  # u: (T, rows, d), zero beyond the length; (1, rows, d) of the step read last; or (0, rows, d)
    last: Tensor  # LSTM: (rows, d), c after the step read last; GRU: (0, d)
    soft: Tensor  # (T, rows, k): soft α where ``alpha`` is hard; else (0, rows, k)
    memory: Tensor  # LSTM: (T, rows, d), c_t; else (0, rows, d)
    projected: Tensor  # projected input that the engine does not recompute, in its own layout; may be empty


class Needs(NamedTuple):
    """Which of the costlier gradients are needed."""

    x: bool
    first: bool


class Gradients(NamedTuple):
    """What ``backward`` returns: the gradients of the fields of a problem, in their shapes; None where not needed.

    If ``backward`` is given W_h, it continues through U = S W_hᵀ + b_h, as :func:`through_weight` does.
    """

    x: Tensor | None
    input: Tensor
    input_bias: Tensor | None
    recurrent: Tensor
    states: Tensor  # of S in the logits S u and, for a GRU, in h_{t-1} = Sᵀ α_{t-1}; not in U
    temperature: Tensor
    peephole: Tensor | None
    start: Tensor
    first: Tensor | None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``F.linear`` that always takes the one-product path: (…, F) to (…, G·d)."""
    flat = x.reshape(-1, x.shape[-1])
    product = flat @ weight.T if bias is None else torch.addmm(bias, flat, weight.T)
    return product.reshape(*x.shape[:-1], len(weight))


def through_weight(gradients: Gradients, states: Tensor, weight: Tensor) -> Gradients:
    """Continue through U, where the start is b_h: ``recurrent`` becomes the gradient of W_h, ``start`` that of b_h."""
    by_state = gradients.recurrent
    return gradients._replace(
        recurrent=by_state.T @ states,
        states=torch.addmm(gradients.states, by_state, weight),
        start=gradients.start + by_state.sum(0),
    )


def as_rows(lengths: Tensor, rows: int) -> Tensor:
    """From one entry per sequence to one entry per row."""
    return lengths.repeat(rows // lengths.shape[0])
