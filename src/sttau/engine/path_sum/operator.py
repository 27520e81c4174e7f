"""The path sum on the engine that :mod:`sttau.engine.backend` chooses; ``reference.py`` says what is computed."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.engine import backend
from sttau.engine.backend import Choice, Engine, Operator
from sttau.engine.path_sum import reference
from sttau.engine.recurrence.reference import Weights

_DENSE = 16  # tokens of a vocabulary per token of a batch, up to which they are counted instead of sorted


def transition_rows(
    inputs: Tensor, hidden: Tensor, weights: Weights, *, used: Tensor | None = None, engine: Engine | None = None
) -> Tensor:
    """Probabilities of the next state, from given hidden states.

    Args:
        inputs: (..., features).
        hidden: (..., n, d), broadcast against the leading dimensions of ``inputs``.
        weights: Weights of a GRU.
        used: How many of the inputs (count, features) are used, (1,), as :func:`distinct` returns it. An engine may
            leave out the others; their probabilities are undefined then.
        engine: Engine to use; by default, Triton's kernels on a GPU and Numba's on a CPU.

    Returns:
        (..., n, k), rows on the simplex.
    """
    several = "every input has hidden states of its own" if hidden.dim() > 2 else None
    chosen = _chosen_for_rows(inputs, engine, several)
    options = {"used": used} if chosen == "triton" else {}
    result: Tensor = _module("transition_rows", chosen).transition_rows(inputs, hidden, weights, **options)
    return result


def _chosen_for_rows(inputs: Tensor, engine: Engine | None, several: str | None = None) -> Choice:
    if engine is None and (several or backend.is_transformed(inputs.device)):
        engine = "reference"  # the first step of a batch is too little work for a kernel
    traced = torch.compiler.is_compiling()
    return backend.choose(
        "transition_rows", inputs.device, inputs.dtype, traced=traced, engine=engine, obstacle=several
    )


def transition_matrices(
    inputs: Tensor, weights: Weights, *, used: Tensor | None = None, engine: Engine | None = None
) -> Tensor:
    """A for every input vector: (..., features) to (..., k, k), rows on the simplex; for ``used`` of them, if given."""
    return transition_rows(inputs, weights.states, weights, used=used, engine=engine)


def first_and_matrices(
    first: Tensor,
    start: Tensor,
    inputs: Tensor,
    weights: Weights,
    *,
    used: Tensor | None = None,
    engine: Engine | None = None,
) -> tuple[Tensor, Tensor]:
    """What a chain begins with, from one start for all sequences, and A for every other input vector.

    Args:
        first: (batch, features), the first input of each sequence.
        start: (1, d), the hidden state before it.
        inputs: (..., features), the other inputs.
        weights: Weights of a GRU.
        used: As in :func:`transition_rows`.
        engine: As in :func:`transition_rows`.

    Returns:
        π_1, (batch, k), and the matrices (..., k, k).
    """
    if _chosen_for_rows(inputs, engine) == "cpu":
        return _module("transition_rows", "cpu").first_and_matrices(first, start, inputs, weights)  # type: ignore[no-any-return]
    rows = transition_rows(first, start, weights, engine=engine)[..., 0, :]
    return rows, transition_matrices(inputs, weights, used=used, engine=engine)


def distinct(tokens: Tensor, vocabulary: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """The tokens that occur, for which alone a function of tokens is computed.

    On a GPU, which would have to wait for their number, it stays in a tensor, and the list is as long as it can be.

    Args:
        tokens: (...) token ids below ``vocabulary``.
        vocabulary: Number of token ids.

    Returns:
        Token ids (n,) in ascending order, at their end zeros; the place of each token among them, (...); and how many
        are used, (1,), or None where all are.

    Example:
        >>> distinct(torch.tensor([[3, 1, 3]]), 10)
        (tensor([1, 3]), tensor([[1, 0, 1]]), None)
    """
    device = tokens.device
    if device.type == "cpu":
        traced = torch.compiler.is_compiling() or backend.is_transformed(device)
        chosen = backend.choose("state_distribution", device, torch.float32, traced=traced)
        if chosen == "cpu" and tokens.dtype == torch.int64 and 0 < vocabulary <= _DENSE * tokens.numel():
            return *_module("state_distribution", chosen).distinct(tokens, vocabulary), None
        entries, places = tokens.unique(return_inverse=True)
        return entries, places, None
    return occurring(tokens, vocabulary)


def occurring(tokens: Tensor, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`distinct` on a GPU.

    Example:
        >>> occurring(torch.tensor([[3, 1, 3]]), 10)
        (tensor([1, 3, 0]), tensor([[1, 0, 1]]), tensor([2]))
    """
    tokens = tokens.long()
    occurs = tokens.new_zeros(vocabulary).scatter_(0, tokens.flatten(), 1)
    until = occurs.cumsum(0)
    size = min(vocabulary, tokens.numel())
    place = torch.where(occurs > 0, until - 1, size)  # what does not occur goes to a place of its own
    ids = torch.arange(vocabulary, device=tokens.device, dtype=tokens.dtype)
    entries = tokens.new_zeros(size + 1).scatter_(0, place, ids)[:size]
    return entries, place[tokens], until[-1:]


def state_distribution(
    first: Tensor,
    matrices: Tensor,
    lengths: Tensor | None = None,
    *,
    places: Tensor | None = None,
    engine: Engine | None = None,
) -> Tensor:
    """π_t for every step: the distribution of the state after reading t inputs.

    Args:
        first: (batch, k), π_1.
        matrices: (batch, time - 1, k, k), A_2 … A_T; or (n, k, k) with ``places``.
        lengths: (batch,) valid steps; beyond a sequence's length its last distribution is repeated.
        places: (batch, time - 1), numbers of the matrices A_2 … A_T.
        engine: Engine to use; by default, Triton's kernels on a GPU and Numba's on a CPU.

    Returns:
        (batch, time, k), rows on the simplex.
    """
    _check_shapes(first, matrices, lengths, places)
    if (matrices if places is None else places).shape[1] == 0:
        return first[:, None]
    device, dtype, states = matrices.device, matrices.dtype, first.shape[-1]
    if engine is None and backend.is_transformed(device):
        engine = "reference"
    traced = torch.compiler.is_compiling()
    chosen = backend.choose("state_distribution", device, dtype, states=states, traced=traced, engine=engine)
    if chosen == "reference":
        return reference.state_distribution(first, look_up(matrices, places), lengths)
    result: Tensor = _module("state_distribution", chosen).state_distribution(first, matrices, lengths, places)
    return result


def _check_shapes(first: Tensor, matrices: Tensor, lengths: Tensor | None, places: Tensor | None) -> None:
    """Raise if the tensors are not of one batch: kernels would read beyond their ends."""
    batch, k = first.shape
    if places is None:
        if matrices.dim() != 4 or matrices.shape[0] != batch or tuple(matrices.shape[2:]) != (k, k):
            raise ValueError(
                f"matrices must have shape ({batch}, time - 1, {k}, {k}), as first is ({batch}, {k}), "
                f"got {tuple(matrices.shape)}"
            )
    elif matrices.dim() != 3 or tuple(matrices.shape[1:]) != (k, k):
        raise ValueError(f"matrices must have shape (n, {k}, {k}) where places are given, got {tuple(matrices.shape)}")
    elif places.dim() != 2 or places.shape[0] != batch:
        raise ValueError(
            f"places must have shape ({batch}, time - 1), one row per row of first, got {tuple(places.shape)}"
        )
    if lengths is not None and tuple(lengths.shape) != (batch,):
        raise ValueError(f"lengths must have shape ({batch},), one per row of first, got {tuple(lengths.shape)}")


def look_up(matrices: Tensor, places: Tensor | None) -> Tensor:
    """The matrices at their places: (n, k, k) and (batch, time) to (batch, time, k, k)."""
    if places is None:
        return matrices
    return F.embedding(places, matrices.flatten(1)).view(*places.shape, *matrices.shape[1:])


def _module(operator: Operator, chosen: Choice) -> Any:
    return reference if chosen == "reference" else backend.kernels(operator, chosen)
