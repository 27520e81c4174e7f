from __future__ import annotations

from itertools import product

import pytest
from automata.fa.dfa import DFA
from hypothesis import given
from hypothesis import strategies as st

from sttau.automata import compare, tomita


@st.composite
def dfas(draw: st.DrawFn) -> DFA:
    size = draw(st.integers(1, 5))
    state = st.integers(0, size - 1)
    return DFA(
        states=set(range(size)),
        input_symbols={"0", "1"},
        transitions={n: {"0": draw(state), "1": draw(state)} for n in range(size)},
        initial_state=0,
        final_states={n for n in range(size) if draw(st.booleans())},
    )


def _first_difference(a: DFA, b: DFA, longest: int) -> str | None:
    """The shortest string on which they differ, the first in order among equals, by trying them all."""
    for length in range(longest + 1):
        for symbols in product("01", repeat=length):
            string = "".join(symbols)
            if a.accepts_input(string) != b.accepts_input(string):
                return string
    return None


@given(dfas(), dfas())
def test_the_answer_is_that_of_trying_all_strings(a: DFA, b: DFA) -> None:
    # two automata of at most 5 states that agree on all strings shorter than 5 + 5 agree on all strings
    difference = _first_difference(a, b, 9)
    answer = compare(a, b)
    assert bool(answer) == (difference is None)
    assert answer.counterexample == difference


@pytest.mark.parametrize("first", range(1, 8))
@pytest.mark.parametrize("second", range(1, 8))
def test_tomita_grammars_equal_only_themselves(first: int, second: int) -> None:
    assert bool(compare(tomita(first), tomita(second))) == (first == second)


def test_different_alphabets_are_refused() -> None:
    one = DFA(states={0}, input_symbols={"a"}, transitions={0: {"a": 0}}, initial_state=0, final_states=set())
    with pytest.raises(ValueError, match="read different symbols"):
        compare(tomita(1), one)
