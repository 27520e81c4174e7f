"""Transition tables of networks: the distribution of the next state for every state and symbol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from sttau.inference.chunks import in_eval_mode
from sttau.models import SequenceClassifier

#: ``categorical`` is the distribution of hard sampling, which τ does not change; ``relaxed mean`` the mean of α at the
#: network's τ.
Table = Literal["categorical", "relaxed mean"]

_DRAWS = 2000  # Gumbel draws for means and variances under the relaxation


class TransitionTable(NamedTuple):
    """Transitions of a network from its pure states.

    Attributes:
        initial: (k,) distribution of the state after the start token.
        matrices: (symbols, k, k) transition matrices.
        categorical: (symbols, k, k) categorical transition matrices, whatever the table.
        chances: (k,) probability that each state accepts.
        symbols: Alphabet.
        tokens: Token id of each symbol.
        vocabulary: Symbol of each token id.
        table: Kind of table.
        temperature: τ of the network.
        seed: Seed of the draws for the relaxed mean.
    """

    initial: Tensor
    matrices: Tensor
    categorical: Tensor
    chances: Tensor
    symbols: tuple[str, ...]
    tokens: tuple[int, ...]
    vocabulary: tuple[str, ...]
    table: Table
    temperature: float
    seed: int


def read_table(
    model: SequenceClassifier, vocabulary: Sequence[str] | None, start: str, accept: int, table: Table, seed: int
) -> TransitionTable:
    """Check the arguments of an extraction and return the transitions of every state and symbol."""
    model = in_eval_mode(model)
    vocabulary = model.vocabulary if vocabulary is None else tuple(vocabulary)
    if vocabulary is None:
        raise ValueError("vocabulary is needed: the model has none (call model.set_metadata(data) before saving it)")
    if model.embedding is None or model.embedding.num_embeddings != len(vocabulary):
        size = "none" if model.embedding is None else f"one of {model.embedding.num_embeddings} tokens"
        raise ValueError(f"vocabulary has {len(vocabulary)} symbols, but the model's embedding is {size}")
    if start not in vocabulary:
        raise ValueError(f"start must be in the vocabulary {vocabulary}, got {start!r}")
    if table not in get_args(Table):
        raise ValueError(f"table must be one of {', '.join(map(repr, get_args(Table)))}, got {table!r}")
    if not 0 <= accept < model.num_classes:
        raise ValueError(f"accept must be a class from 0 to {model.num_classes - 1}, got {accept}")
    symbols = {symbol: token for token, symbol in enumerate(vocabulary) if symbol != start}
    if not symbols:
        raise ValueError("the alphabet is empty: vocabulary contains only the start token")
    with torch.no_grad():
        layer = model.finite_state_layer
        vectors = model.embedding.weight
        categorical = layer.transition_matrices(vectors)[list(symbols.values())].double().cpu()
        initial = layer.first_distribution(vectors[[vocabulary.index(start)]])[0].double().cpu()
        chances = model.state_logits().double().exp()[:, accept].cpu()
        tau = float(layer.temperature)
    categorical = categorical / categorical.sum(-1, keepdim=True)
    initial = initial / initial.sum()
    matrices = categorical
    if table == "relaxed mean":
        initial, matrices = (relaxed_draws(rows, tau, seed).mean(0) for rows in (initial, categorical))
    return TransitionTable(
        initial, matrices, categorical, chances, tuple(symbols), tuple(symbols.values()), vocabulary, table, tau, seed
    )


def relaxed_draws(rows: Tensor, temperature: float, seed: int, draws: int = _DRAWS) -> Tensor:
    """Draw α for categorical distributions: (..., k) gives (draws, ..., k)."""
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(draws, *rows.shape, generator=generator, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    gumbel = -(-uniform.log()).log()
    return ((rows.clamp_min(1e-300).log() + gumbel) / temperature).softmax(-1)
