from __future__ import annotations

import pytest
import torch

from sttau.automata import stochastic
from sttau.data import load
from sttau_reproduction.automata.languages import cramer_rao, frequencies


def test_ten_copies_are_those_of_the_data_set_and_more_are_drawn_like_them() -> None:
    data, counts = frequencies(2, 10)
    assert len(data) == 2046
    assert int(counts[:, 1].sum()) == int(load("stochastic2", "train").labels.sum())
    _, many = frequencies(2, 1000)
    assert (many.sum(-1) == 1000).all()
    strings = ["".join("01"[token - 1] for token in data.inputs[row, 1 : data.lengths[row]]) for row in range(2046)]
    gap = many[:, 1] / 1000 - stochastic(2).probability(strings)
    assert float(gap.abs().max()) < 5 * 0.5 / 1000**0.5  # five standard deviations


def test_the_bound_of_cramer_and_rao_is_that_of_a_simulation() -> None:
    # one label a symbol: the share of accepted copies of "0" alone cannot do better than its own binomial error
    bound = cramer_rao(1, copies=10)
    assert bound["p_0"] < (0.1 * 0.9 / 10) ** 0.5
    assert bound["p_0"] == pytest.approx(0.0145, abs=0.0001)  # all strings together help
    assert cramer_rao(1, copies=1000)["sup"] == pytest.approx(bound["sup"] / 10)
    assert torch.tensor(list(cramer_rao(2).values())).min() > 0.05
