"""Exact inference for the GRU form: the paper's sum over all k^T paths (Eq. 3) as a product of k×k matrices.

If h_{t-1} is exactly the state s_i, the next state is s_j with probability

    A_t[i, j] = softmax(S · GRU(s_i, x_t))_j          for every τ > 0 (the Gumbel-max law does not depend on τ)

so a sequence drives a Markov chain over the states, and the law of the last state is

    π_T = π_1 A_2 A_3 … A_T,        π_1 = softmax(S · GRU(h_0, x_1)).

The first step starts from h_0 itself, which therefore need not be one of the states. All A_t are computed at once and
multiplied by a blocked scan of about 2·√T serial steps. Products of stochastic matrices are stochastic; their rows are
normalized after each product, so rounding does not accumulate however long the sequence.

This is the readable form, in plain PyTorch; on a GPU the kernels of :mod:`sttau.engine.exact_triton` do the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sttau.engine.dispatch import forced, interpreted, missing, say_once
from sttau.engine.reference import Weights, gru_update

Engine = Literal["reference", "triton"]

_CHUNK_NUMBERS = 1 << 24  # how many gate values are held at once while the matrices are made
_SERIAL = 64  # up to this length a plain loop over vectors is faster than the scan


def transition_rows(inputs: Tensor, hidden: Tensor, weights: Weights, *, engine: Engine | None = None) -> Tensor:
    """Probabilities of the next state, from given hidden states.

    Args:
        inputs: (..., features).
        hidden: (..., n, d), broadcast against the leading dimensions of ``inputs``.
        weights: of a GRU.
        engine: forces one; without it, Triton's kernels are used on a GPU.

    Returns:
        (..., n, k), rows on the simplex.
    """
    several = "every input has hidden states of its own" if hidden.dim() > 2 else None
    if several and engine is None:
        engine = "reference"  # the first step of a batch: nothing that would be worth a kernel
    if _choose(inputs, engine, several) == "triton":
        from sttau.engine import exact_triton

        return exact_triton.transition_rows(inputs, hidden, weights)
    recurrent = F.linear(hidden, weights.recurrent, weights.recurrent_bias)

    def rows(part: Tensor) -> Tensor:
        x = F.linear(part, weights.input, weights.input_bias)[..., None, :]
        return (gru_update(x, recurrent, hidden) @ weights.states.T).softmax(dim=-1)

    size = hidden.shape[-2] * recurrent.shape[-1]
    if hidden.dim() > 2 or inputs[..., 0].numel() * size <= _CHUNK_NUMBERS:
        return rows(inputs)
    # Long input: work through it in pieces and, when training, recompute the pieces in the backward pass.
    flat = inputs.reshape(-1, inputs.shape[-1])
    pieces = flat.split(max(1, _CHUNK_NUMBERS // size))
    if torch.is_grad_enabled():
        done = [checkpoint(rows, piece, use_reentrant=False) for piece in pieces]
    else:
        done = [rows(piece) for piece in pieces]
    return torch.cat(done).reshape(*inputs.shape[:-1], hidden.shape[-2], -1)


def transition_matrices(inputs: Tensor, weights: Weights, *, engine: Engine | None = None) -> Tensor:
    """A for every input vector: (..., features) gives (..., k, k), rows on the simplex."""
    return transition_rows(inputs, weights.states, weights, engine=engine)


def tabulate(law: Callable[[Tensor], Tensor], tokens: Tensor, vocabulary: int) -> Tensor:
    """What ``law`` gives for each token, made once for each entry of a finite alphabet where that is less work.

    Args:
        law: from token ids (n,) to one value for each, (n, ...); as a rule an embedding and what follows it.
        tokens: (...) ids, smaller than ``vocabulary``.
        vocabulary: how many entries the alphabet has.

    Returns:
        (..., ...), differentiable with respect to all that ``law`` depends on.

    Example:
        >>> tabulate(lambda ids: torch.stack([ids, ids * ids], dim=-1).float(), torch.tensor([[3, 1, 3]]), 10)
        tensor([[[3., 9.],
                 [1., 1.],
                 [3., 9.]]])
    """
    if tokens.device.type == "cpu":
        entries, places = tokens.unique(return_inverse=True)
    elif tokens.numel() > vocabulary:  # to look which tokens occur would make a GPU wait
        entries, places = torch.arange(vocabulary, device=tokens.device), tokens
    else:
        values = law(tokens.flatten())
        return values.view(*tokens.shape, *values.shape[1:])
    table = law(entries)
    return F.embedding(places, table.flatten(1)).view(*tokens.shape, *table.shape[1:])


def cumulative_products(matrices: Tensor, *, reverse: bool = False) -> Tensor:
    """All running products of stochastic matrices (batch, time, k, k), of the same shape.

    Forward, entry t is A_0 ⋯ A_t; in reverse it is A_t ⋯ A_{T-1}.

    Example:
        >>> step = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).expand(1, 100, 2, 2)
        >>> cumulative_products(step)[0, -1]
        tensor([[0.6667, 0.3333],
                [0.6667, 0.3333]])
    """
    if reverse:
        matrices = matrices.flip(1)
    within = _products_in_blocks(matrices, reverse)
    carried = [torch.eye(within.shape[-1], dtype=within.dtype, device=within.device).expand_as(within[:, 0, 0])]
    for number in range(within.shape[1] - 1):
        carried.append(_join(carried[-1], within[:, number, -1], reverse))
    whole = _join(torch.stack(carried, dim=1)[:, :, None], within, reverse).flatten(1, 2)[:, : matrices.shape[1]]
    return whole.flip(1) if reverse else whole


def _products_in_blocks(matrices: Tensor, reverse: bool = False) -> Tensor:
    """Running products inside blocks of about √T matrices: (batch, blocks, width, k, k), filled up with identities."""
    batch, time, k, _ = matrices.shape
    width = math.isqrt(time - 1) + 1  # √T, rounded up
    blocks = -(-time // width)
    fill = torch.eye(k, dtype=matrices.dtype, device=matrices.device).expand(batch, blocks * width - time, k, k)
    grid = torch.cat([matrices, fill], dim=1).reshape(batch, blocks, width, k, k)
    within = [grid[:, :, 0]]
    for number in range(1, width):
        within.append(_join(within[-1], grid[:, :, number], reverse))
    return torch.stack(within, dim=2)


def _join(done: Tensor, new: Tensor, reverse: bool = False) -> Tensor:
    product = new @ done if reverse else done @ new
    return product / product.sum(dim=-1, keepdim=True)


def state_distribution(
    first: Tensor, matrices: Tensor, lengths: Tensor | None = None, *, engine: Engine | None = None
) -> Tensor:
    """π_t for every step: the law of the state after reading t inputs.

    Args:
        first: (batch, k), π_1.
        matrices: (batch, time - 1, k, k), A_2 … A_T.
        lengths: (batch,) valid steps; beyond a sequence's length its last law is kept.
        engine: forces one; without it, Triton's kernels are used on a GPU.

    Returns:
        (batch, time, k), rows on the simplex.
    """
    if matrices.shape[1] == 0:
        return first[:, None]
    k, most = first.shape[-1], 32
    if _choose(matrices, engine, f"the scan holds at most {most} states, not {k}" if k > most else None) == "triton":
        from sttau.engine import exact_triton

        return exact_triton.state_distribution(first, matrices, lengths)
    matrices = hold_beyond(matrices, lengths)
    law = first[:, None]
    if matrices.shape[1] <= _SERIAL:
        laws = [law]
        for number in range(matrices.shape[1]):
            laws.append(_join(laws[-1], matrices[:, number]))
        return torch.cat(laws, dim=1)
    within = _products_in_blocks(matrices)
    starts = [law]
    for number in range(within.shape[1] - 1):
        starts.append(_join(starts[-1], within[:, number, -1]))
    rest = _join(torch.stack(starts, dim=1)[:, :, None], within)[..., 0, :].flatten(1, 2)
    return torch.cat([law, rest[:, : matrices.shape[1]]], dim=1)


def hold_beyond(matrices: Tensor, lengths: Tensor | None) -> Tensor:
    """Put identities in the place of A_t where t exceeds a sequence's length; ``matrices`` are A_2 … A_T."""
    if lengths is None:
        return matrices
    time, k = matrices.shape[1], matrices.shape[-1]
    step = torch.arange(2, time + 2, device=matrices.device)
    beyond = step[None, :] > lengths.to(matrices.device)[:, None]
    identity = torch.eye(k, dtype=matrices.dtype, device=matrices.device)
    return torch.where(beyond[:, :, None, None], identity, matrices)


def outcome_given_state(matrices: Tensor, outcome: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Law of the outcome at the end, given the state at each step: the backward messages.

    Args:
        matrices: (batch, time - 1, k, k), A_2 … A_T.
        outcome: (k, classes), the law of the outcome in each state.
        lengths: (batch,) valid steps.

    Returns:
        (batch, time, k, classes): p(y | s_t = j, x).
    """
    batch, k = matrices.shape[0], outcome.shape[0]
    last = outcome.expand(batch, 1, k, -1)
    if matrices.shape[1] == 0:
        return last
    suffix = cumulative_products(hold_beyond(matrices, lengths), reverse=True)
    return torch.cat([suffix @ outcome, last], dim=1)


def _choose(tensor: Tensor, engine: Engine | None, obstacle: str | None) -> Engine:
    """The engine for a tensor, unless an obstacle to Triton's kernels is known; where PyTorch must do, say so once."""
    if engine not in (None, *get_args(Engine)):
        raise ValueError(f"engine must be one of {', '.join(map(repr, get_args(Engine)))}, got {engine!r}")
    if engine is None and forced() is not None:
        engine = "triton" if forced() == "triton" else "reference"
    if engine == "reference" or (engine is None and tensor.device.type != "cuda"):
        return "reference"
    obstacle = obstacle or missing("triton")
    if obstacle is None and tensor.dtype == torch.float64:
        obstacle = "its numbers are float32, not float64"
    if obstacle is None and tensor.device.type != "cuda" and not interpreted():
        obstacle = f"it needs a CUDA device, not {tensor.device.type!r}"
    if obstacle is None:
        return "triton"
    if engine is not None:
        raise ValueError(f"engine={engine!r} cannot do this: {obstacle}")
    say_once("the exact engine runs in PyTorch, not on Triton's kernels", obstacle)
    return "reference"
