from __future__ import annotations

import pytest

from sttau.automata import tomita
from sttau.data.tomita import GRAMMARS, sample_strings


@pytest.mark.parametrize("number", range(1, 8))
def test_a_tomita_dfa_is_minimal_and_agrees_with_its_grammar(number: int) -> None:
    dfa = tomita(number)
    assert len(dfa.minify().states) == len(dfa.states)
    for length in (0, 1, 5, 50):
        for inside in (True, False):
            for string in sample_strings(GRAMMARS[number], length, inside, 10, seed=0):
                assert dfa.accepts_input(string) == inside


def test_there_are_seven() -> None:
    with pytest.raises(ValueError, match=r"number must be 1 … 7, got 8"):
        tomita(8)
