from __future__ import annotations

import itertools

import pytest
import torch

from sttau.automata import extract_dfa
from sttau.automata.extraction import Table
from sttau.data import load
from tests.automata.extraction.small_networks import random_network


@pytest.mark.parametrize("table", ["categorical", "relaxed mean"])
def test_counts_are_the_visits_of_the_data(table: Table) -> None:
    model, data = random_network(), load("tomita3", "train")
    extracted = extract_dfa(model, table=table, data=data)
    assert sorted(itertools.chain(*extracted.members.values())) == [0, 1, 2, 3, 4]  # no group is unreachable
    alive = torch.arange(data.inputs.shape[1])[None] < data.lengths[:, None]
    for token, symbol in enumerate("01", 1):
        steps = int((alive & (data.inputs == token))[:, 1:].sum())
        assert sum(extracted.edges[state, symbol].count for state in extracted.dfa.states) == pytest.approx(steps)
