"""Visits of the states of a network: by random strings, or by the strings of a data set."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.automata.extraction.table import TransitionTable, relaxed_draws
from sttau.data.dataset import SequenceDataset
from sttau.engine import Noise, fingerprint
from sttau.inference.chunks import in_eval_mode
from sttau.layers import FiniteStateRNN
from sttau.models import SequenceClassifier
from sttau.padding import valid_steps

_HORIZON = 20  # length of the random strings
_AT_ONCE = 1 << 22  # values per block


def expected_visits(table: TransitionTable) -> Tensor:
    """Return the expected visits of each state by a random string, per next symbol: (symbols, k)."""
    state, visits = table.initial, table.initial.clone()
    for _ in range(_HORIZON - 1):
        state = state @ table.matrices.mean(0)
        visits = visits + state
    return (visits / len(table.symbols)).expand(len(table.symbols), -1)


def visits_of_data(
    model: SequenceClassifier, table: TransitionTable, data: SequenceDataset, into: Tensor, seed: int
) -> tuple[Tensor, Tensor | None]:
    """Return the visits of each state by the strings of a data set, per next symbol: (symbols, k).

    For the relaxed table, also return the variance over visits of the mean share of α that moves into each group:
    (symbols, groups, groups). A visit then counts for the state with the largest share of α.
    """
    model = in_eval_mode(model)
    lengths = model.check_inputs(data.inputs, data.lengths)
    assert lengths is not None
    inputs = data.inputs.to(torch.int64)
    if table.table == "categorical":
        with torch.no_grad():
            before = model.chain(inputs, lengths).distributions[:, :-1].double().cpu()
        return _count(before, inputs, lengths, table.tokens), None
    assert model.embedding is not None
    layer: FiniteStateRNN = model.finite_state_layer
    with torch.no_grad():
        vectors = model.embedding(inputs)
        noise = Noise.of(fingerprint(inputs, lengths), 1, seed, 0)
        alpha = layer.transitions(vectors, lengths, noise=noise, mode="soft")[:, :-1]
    winner = F.one_hot(alpha.argmax(-1), alpha.shape[-1]).double().cpu()
    visits = _count(winner, inputs, lengths, table.tokens)
    groups = into.shape[1]
    spread = torch.zeros(len(table.tokens), groups, groups, dtype=torch.float64)
    alive = valid_steps(inputs, lengths)[:, 1:]
    for x, token in enumerate(table.tokens):
        met = alive & (inputs[:, 1:] == token)
        at = (winner[met] @ into).argmax(-1)
        with torch.no_grad():
            hidden = alpha[met] @ layer.states
            rows = layer.first_distribution(model.embedding.weight[[token]].expand(len(hidden), -1), hidden)
        rows = rows.double().cpu()
        size = max(1, _AT_ONCE // (100 * rows.shape[-1]))
        parts = [relaxed_draws(part, table.temperature, table.seed, 100).mean(0) @ into for part in rows.split(size)]
        share = torch.cat(parts)
        for g in range(groups):
            if bool((at == g).any()):
                spread[x, g] = share[at == g].var(0, correction=0)
    return visits, spread


def _count(before: Tensor, inputs: Tensor, lengths: Tensor, tokens: tuple[int, ...]) -> Tensor:
    """Sum the distributions of the state before each step over the steps that read each token: (tokens, k)."""
    alive = valid_steps(inputs, lengths)[:, 1:]
    return torch.stack([before[alive & (inputs[:, 1:] == token)].sum(0) for token in tokens])
