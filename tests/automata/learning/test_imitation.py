from __future__ import annotations

from sttau.automata import random_dfa, tomita
from sttau.automata.learning.imitation import imitate
from sttau.data import load
from tests.automata.learning.strings import small_model


def test_too_few_rows_cannot_imitate() -> None:
    model = small_model(3, "dense")
    model.set_metadata(load("tomita4", "train"))
    assert imitate(model, tomita(4)) is None
    halves = small_model(6, "halves")  # three rows of each label
    halves.set_metadata(load("tomita4", "train"))
    assert imitate(halves, random_dfa(8, seed=0)) is None
