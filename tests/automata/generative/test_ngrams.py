from __future__ import annotations

import math

import pytest

from sttau.automata.generative import NGram


def test_a_bigram_is_the_limit_of_counts_and_sums_to_one() -> None:
    model = NGram(["ab"] * 1000 + ["b"] * 1000, 2)
    assert model.log_probability(["ab"])[0] == pytest.approx(math.log(0.5), abs=0.01)
    for context in (("a",), (None,), ("b",)):
        assert sum(model.probability(context, symbol) for symbol in ("a", "b", None)) == pytest.approx(1)
