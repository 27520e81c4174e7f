"""Exact inference for the GRU form, in plain PyTorch: the paper's sum over all k^T paths (Eq. 3) as a matrix product.

If h_{t-1} is exactly the state s_i, the next state is s_j with probability

    A_t[i, j] = softmax(S · GRU(s_i, x_t))_j     for every τ > 0 (the Gumbel-max distribution does not depend on τ)

so a sequence drives a Markov chain over the states, and the distribution of the last state is

    π_T = π_1 A_2 A_3 … A_T,        π_1 = softmax(S · GRU(h_0, x_1)).

The first step starts from h_0 itself, which therefore need not be one of the states. All A_t are computed at once and
multiplied by a blocked scan of about 2·√T serial steps. Products of stochastic matrices are stochastic; their rows are
normalized after each product, so rounding does not accumulate however long the sequence is.

The kernels of ``triton_rows.py`` and ``triton_scan.py`` on a GPU, and of ``cpu.py``, compute the same.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sttau.engine.recurrence.reference import Weights, gru_update

_CHUNK_VALUES = 1 << 24  # gate values that are held at once while the matrices are computed
_SERIAL = 64  # up to this length a plain loop over vectors is faster than the scan


def transition_rows(inputs: Tensor, hidden: Tensor, weights: Weights) -> Tensor:
    """As :func:`sttau.engine.path_sum.transition_rows`."""
    recurrent = F.linear(hidden, weights.recurrent, weights.recurrent_bias)

    def rows(part: Tensor) -> Tensor:
        x = F.linear(part, weights.input, weights.input_bias)[..., None, :]
        return (gru_update(x, recurrent, hidden) @ weights.states.T).softmax(dim=-1)

    size = hidden.shape[-2] * recurrent.shape[-1]
    if hidden.dim() > 2 or inputs[..., 0].numel() * size <= _CHUNK_VALUES:
        return rows(inputs)
    # Long input is processed in pieces; when training, they are recomputed in the backward pass.
    flat = inputs.reshape(-1, inputs.shape[-1])
    pieces = flat.split(max(1, _CHUNK_VALUES // size))
    if torch.is_grad_enabled():
        done = [checkpoint(rows, piece, use_reentrant=False) for piece in pieces]
    else:
        done = [rows(piece) for piece in pieces]
    return torch.cat(done).reshape(*inputs.shape[:-1], hidden.shape[-2], -1)


def state_distribution(first: Tensor, matrices: Tensor, lengths: Tensor | None = None) -> Tensor:
    """As :func:`sttau.engine.path_sum.state_distribution`, for at least one matrix."""
    matrices = hold_beyond(matrices, lengths)
    distribution = first[:, None]
    if matrices.shape[1] <= _SERIAL:
        distributions = [distribution]
        for i in range(matrices.shape[1]):
            distributions.append(_join(distributions[-1], matrices[:, i]))
        return torch.cat(distributions, dim=1)
    within = _products_in_blocks(matrices)
    starts = [distribution]
    for i in range(within.shape[1] - 1):
        starts.append(_join(starts[-1], within[:, i, -1]))
    rest = _join(torch.stack(starts, dim=1)[:, :, None], within)[..., 0, :].flatten(1, 2)
    return torch.cat([distribution, rest[:, : matrices.shape[1]]], dim=1)


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
    for i in range(within.shape[1] - 1):
        carried.append(_join(carried[-1], within[:, i, -1], reverse))
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
    for i in range(1, width):
        within.append(_join(within[-1], grid[:, :, i], reverse))
    return torch.stack(within, dim=2)


def _join(done: Tensor, new: Tensor, reverse: bool = False) -> Tensor:
    product = new @ done if reverse else done @ new
    return product / product.sum(dim=-1, keepdim=True)


def hold_beyond(matrices: Tensor, lengths: Tensor | None) -> Tensor:
    """Replace A_t by the identity where t exceeds a sequence's length; ``matrices`` are A_2 … A_T."""
    if lengths is None:
        return matrices
    time, k = matrices.shape[1], matrices.shape[-1]
    step = torch.arange(2, time + 2, device=matrices.device)
    beyond = step[None, :] > lengths.to(matrices.device)[:, None]
    identity = torch.eye(k, dtype=matrices.dtype, device=matrices.device)
    return torch.where(beyond[:, :, None, None], identity, matrices)


def outcome_given_state(matrices: Tensor, outcome: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Distribution of the outcome at the end, given the state at each step: the backward messages.

    Args:
        matrices: (batch, time - 1, k, k), A_2 … A_T.
        outcome: (k, classes), distribution of the outcome in each state.
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
