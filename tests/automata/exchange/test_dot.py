from __future__ import annotations

from pathlib import Path

import pytest
import torch
from aalpy.utils import save_automaton_to_file
from automata.fa.dfa import DFA

from sttau.automata import PA, compare, from_dot, from_regex, read_automaton, stochastic, to_aalpy, to_dot, tomita
from sttau.automata.exchange import diagram
from sttau.errors import AutomatonError


def test_dot_shows_every_edge_once_with_its_labels() -> None:
    text = to_dot(stochastic(2))
    assert text.count("->") == 1 + len(diagram(stochastic(2)).edges)
    assert '0 -> 1 [label="0 [0.30]\\n1 [0.40]"];' in text
    assert "1 [shape=doublecircle];" in text


def test_dot_of_random_initial_states_and_outputs_and_special_symbols() -> None:
    pa = PA(torch.tensor([0.25, 0.75]), torch.eye(2)[None].repeat(2, 1, 1), torch.tensor([0.5, 0]), ('"', "\\"))
    text = to_dot(pa)
    assert 'start0 -> 0 [label="0.25"];' in text
    assert '0 [label="0\\n0.50"];' in text
    assert '[label="\\" [1.00]\\n\\\\ [1.00]"]' in text


def test_an_attribute_of_a_graph_without_a_value_is_refused() -> None:
    with pytest.raises(AutomatonError, match="cannot be read from '= ;"):
        from_dot("digraph a { rankdir= ;\n 0; start0 [shape=point]; start0 -> 0; }")


def test_the_dot_files_of_aalpy_are_read(tmp_path: Path) -> None:
    for number in range(1, 8):
        save_automaton_to_file(to_aalpy(tomita(number)), str(tmp_path / "theirs"), file_type="dot")
        assert compare(read_automaton(tmp_path / "theirs.dot"), tomita(number))


def test_probabilities_and_odd_symbols_in_dot_are_no_obstacle() -> None:
    dfa = from_regex("(ab)*", "ab")
    renamed = DFA(
        states=dfa.states,
        input_symbols={'"', "]"},
        transitions={s: {'"': row["a"], "]": row["b"]} for s, row in dfa.transitions.items()},
        initial_state=dfa.initial_state,
        final_states=dfa.final_states,
    )
    notes = {(state, symbol): 0.5 for state in renamed.states for symbol in renamed.input_symbols}
    assert compare(from_dot(to_dot(renamed, probabilities=notes, variances=notes)), renamed)
