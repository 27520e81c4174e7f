from __future__ import annotations

import pytest
import torch

from sttau.automata import stochastic, tomita
from sttau.automata.exchange import diagram


def test_probabilities_and_variances_are_written() -> None:
    values = {(s, a): 0.25 for s in (0, 1) for a in "01"}
    assert diagram(tomita(1), probabilities=values, variances=values).edges[0, 1] == ["0 [0.250, σ² 0.25]"]
    edges = diagram(stochastic(1), variances=torch.full((2, 2, 2), 0.0012)).edges
    assert edges[0, 1] == ["0 [0.10, σ² 0.0012]", "1 [0.80, σ² 0.0012]"]
    assert (0, 1) not in diagram(stochastic(1), smallest=0.85).edges


def test_the_variance_of_a_certain_edge_is_left_off() -> None:
    moves = {(state, symbol): 0.9 for state in (0, 1) for symbol in "01"}
    certain = moves | {(0, "0"): 0.9999}
    variances = dict.fromkeys(moves, 0.02) | {(1, "1"): 0.0004}
    edges = diagram(tomita(1), probabilities=certain, variances=variances).edges
    assert edges[0, 1] == ["0 [1.000]"]
    assert edges[0, 0] == ["1 [0.900, σ² 0.02]"]
    assert edges[1, 1] == ["0 [0.900, σ² 0.02]", "1 [0.900]"]


def test_diagrams_reject_values_of_another_kind_of_automaton() -> None:
    with pytest.raises(TypeError, match="must be a mapping"):
        diagram(tomita(1), variances=torch.zeros(1))
    with pytest.raises(TypeError, match="its own probabilities"):
        diagram(stochastic(1), probabilities={})
    with pytest.raises(ValueError, match="shape of matrices"):
        diagram(stochastic(1), variances=torch.zeros(2))
