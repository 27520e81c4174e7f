from __future__ import annotations

import sys

import pytest

from sttau.automata import PA, compare, from_aalpy, stochastic, to_aalpy, tomita
from tests.automata.exchange.strings import STRINGS


@pytest.mark.parametrize("number", [1, 2])
def test_a_pa_with_one_initial_state_and_deterministic_outputs_keeps_its_states(number: int) -> None:
    again = from_aalpy(to_aalpy(stochastic(number)))
    assert isinstance(again, PA)
    assert again.num_states == stochastic(number).num_states
    assert compare(again, stochastic(number))


def test_aalpy_accepts_the_same_strings() -> None:
    theirs = to_aalpy(tomita(3))
    for string in STRINGS:
        theirs.reset_to_initial()
        answer = theirs.initial_state.is_accepting
        for symbol in string:
            answer = theirs.step(symbol)
        assert answer == tomita(3).accepts_input(string)


def test_missing_moves_of_an_mdp_reject() -> None:
    mdp = to_aalpy(stochastic(1))
    for state in mdp.states:
        state.transitions.pop("0")
    del mdp.states[1].transitions["1"]
    mdp.states[0].transitions["0"] = [(mdp.states[1], 1.0)]
    read = from_aalpy(mdp)
    assert isinstance(read, PA)
    assert read.num_states == 3
    assert read.probability(["0", "00", "01", "0000"]).tolist() == [1, 0, 0, 0]


def test_without_aalpy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aalpy", None)
    with pytest.raises(ImportError, match=r"pip install 'sttau\[automata\]'"):
        to_aalpy(tomita(1))


def test_other_aalpy_automata_are_rejected() -> None:
    with pytest.raises(TypeError, match="Dfa or Mdp, got str"):
        from_aalpy("automaton")
