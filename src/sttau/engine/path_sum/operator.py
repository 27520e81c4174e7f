"""The path sum on the engine that :mod:`sttau.engine.backend` chooses; ``reference.py`` says what is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.engine import backend
from sttau.engine.backend import Choice, Engine, Operator
from sttau.engine.path_sum import reference
from sttau.engine.recurrence.reference import Weights


def transition_rows(inputs: Tensor, hidden: Tensor, weights: Weights, *, engine: Engine | None = None) -> Tensor:
    """Probabilities of the next state, from given hidden states.

    Args:
        inputs: (..., features).
        hidden: (..., n, d), broadcast against the leading dimensions of ``inputs``.
        weights: Weights of a GRU.
        engine: Engine to use; by default, Triton's kernels on a GPU and Numba's on a CPU.

    Returns:
        (..., n, k), rows on the simplex.
    """
    several = "every input has hidden states of its own" if hidden.dim() > 2 else None
    if engine is None and (several or backend.is_transformed(inputs.device)):
        engine = "reference"  # the first step of a batch is too little work for a kernel
    traced = torch.compiler.is_compiling()
    chosen = backend.choose(
        "transition_rows", inputs.device, inputs.dtype, traced=traced, engine=engine, obstacle=several
    )
    result: Tensor = _module("transition_rows", chosen).transition_rows(inputs, hidden, weights)
    return result


def transition_matrices(inputs: Tensor, weights: Weights, *, engine: Engine | None = None) -> Tensor:
    """A for every input vector: (..., features) to (..., k, k), rows on the simplex."""
    return transition_rows(inputs, weights.states, weights, engine=engine)


def tabulate(function: Callable[[Tensor], Tensor], tokens: Tensor, vocabulary: int) -> Tensor:
    """The values of a function of tokens, computed once per entry of the vocabulary where that is less work.

    Args:
        function: Function of token ids (n,) that returns (n, ...), usually an embedding and what follows it.
        tokens: (...) token ids below ``vocabulary``.
        vocabulary: Number of token ids.

    Returns:
        (..., ...), differentiable with respect to everything that ``function`` depends on.

    Example:
        >>> tabulate(lambda ids: torch.stack([ids, ids * ids], dim=-1).float(), torch.tensor([[3, 1, 3]]), 10)
        tensor([[[3., 9.],
                 [1., 1.],
                 [3., 9.]]])
    """
    if tokens.device.type == "cpu":
        entries, places = tokens.unique(return_inverse=True)
    elif tokens.numel() > vocabulary:  # finding the tokens that occur would synchronize with the GPU
        entries, places = torch.arange(vocabulary, device=tokens.device), tokens
    else:
        values = function(tokens.flatten())
        return values.view(*tokens.shape, *values.shape[1:])
    table = function(entries)
    return F.embedding(places, table.flatten(1)).view(*tokens.shape, *table.shape[1:])


def state_distribution(
    first: Tensor, matrices: Tensor, lengths: Tensor | None = None, *, engine: Engine | None = None
) -> Tensor:
    """π_t for every step: the distribution of the state after reading t inputs.

    Args:
        first: (batch, k), π_1.
        matrices: (batch, time - 1, k, k), A_2 … A_T.
        lengths: (batch,) valid steps; beyond a sequence's length its last distribution is repeated.
        engine: Engine to use; by default, Triton's kernels on a GPU and Numba's on a CPU.

    Returns:
        (batch, time, k), rows on the simplex.
    """
    if matrices.shape[1] == 0:
        return first[:, None]
    device, dtype, states = matrices.device, matrices.dtype, first.shape[-1]
    if engine is None and backend.is_transformed(device):
        engine = "reference"
    traced = torch.compiler.is_compiling()
    chosen = backend.choose("state_distribution", device, dtype, states=states, traced=traced, engine=engine)
    result: Tensor = _module("state_distribution", chosen).state_distribution(first, matrices, lengths)
    return result


def _module(operator: Operator, chosen: Choice) -> Any:
    return reference if chosen == "reference" else backend.kernels(operator, chosen)
