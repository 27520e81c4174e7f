from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sttau import SequenceClassifier, STTauGRU
from sttau.automata import (
    compare,
    from_att,
    from_dot,
    from_jflap,
    from_prism,
    random_dfa,
    read_automaton,
    stochastic,
    to_att,
    to_dot,
    to_jflap,
    tomita,
)
from sttau.automata import compile as compile_model
from sttau.errors import AutomatonError
from sttau.plotting.automaton import write_automaton
from tests.languages.strategies import pa_of


@pytest.mark.parametrize("ending", ["dot", "jff", "att", "json"])
@given(states=st.integers(1, 9), seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_a_dfa_is_the_same_after_it_was_written_and_read(ending: str, states: int, seed: int) -> None:
    dfa = random_dfa(states, "01", seed=seed)
    writers = {"dot": (to_dot, from_dot), "jff": (to_jflap, from_jflap), "att": (to_att, from_att)}
    if ending in writers:
        write, read = writers[ending]
        found = read(write(dfa))
        assert compare(found, dfa)
        assert len(found.states) == states


@pytest.mark.parametrize(
    ("read", "text", "problem"),
    [
        (from_dot, "graph {}", "no directed graph"),
        (from_dot, "digraph { 0 -> 1 [label=a]; }", "one initial state"),
        (from_dot, to_dot(stochastic(1)), "several moves of a state"),
        (from_dot, to_dot(pa_of([1.0], [[[1.0]]], [0.3], ("a",))), "rounded for a drawing"),
        (from_dot, "digraph { s [shape=point]; s -> 0; 0 -> 0; }", "without a symbol"),
        (from_dot, "digraph { a ] }", "cannot be read from"),
        (from_jflap, "<structure><type>pda</type></structure>", "type 'pda'"),
        (from_jflap, "<!DOCTYPE x><structure/>", "document type"),
        (from_jflap, "<structure>", "not valid"),
        (from_jflap, "<structure><type>fa</type><automaton/></structure>", "no initial state"),
        (from_att, "0 1 a 0.5\n1\n", "line 1: expected source"),
        (from_att, "", "no initial state"),
        (from_prism, "dtmc", "no MDP"),
        (from_prism, "mdp\ns : [0..1] init 0;\n[a_x] s=0 -> s'=1;", "an update that is not read"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(read: object, text: str, problem: str) -> None:
    with pytest.raises(AutomatonError, match=problem):
        read(text)  # type: ignore[operator]


def test_pas_are_not_written_where_there_are_no_probabilities() -> None:
    for write in (to_jflap, to_att):
        with pytest.raises(TypeError, match=r"write a PA as \.json"):
            write(stochastic(1))
    with pytest.raises(ValueError, match="' ' cannot be written"):
        to_att(random_dfa(2, "a ", seed=0))


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    for ending in ("json", "dot", "jff", "att"):
        assert compare(read_automaton(write_automaton(tomita(5), tmp_path / f"five.{ending}")), tomita(5))
    for ending in ("json", "prism"):
        assert read_automaton(write_automaton(stochastic(2), tmp_path / f"two.{ending}")) == stochastic(2)
    model = SequenceClassifier(STTauGRU(4, 8, 3), 2, torch.nn.Embedding(3, 4))
    compiled = compile_model(model, ("^", "0", "1"))
    path = compiled.save(tmp_path / "model.safetensors")
    assert read_automaton(path) == compiled.pa()
    with pytest.raises(AutomatonError, match=r"three\.txt must end in \.json"):
        read_automaton(tmp_path / "three.txt")
