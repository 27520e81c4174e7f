from __future__ import annotations

import json
import re
import sys
from itertools import product
from typing import Any

import networkx
import pytest
import torch
from automata.fa.dfa import DFA
from hypothesis import given, settings

from sttau.automata import (
    PA,
    compare,
    from_aalpy,
    from_json,
    from_networkx,
    random_dfa,
    stochastic,
    to_aalpy,
    to_dot,
    to_json,
    to_networkx,
    to_prism,
    tomita,
)
from sttau.automata.exchange import diagram
from sttau.automata.exchange.dot import from_dot
from sttau.errors import AutomatonError
from tests.languages.strategies import dfas, pas

STRINGS = ["".join(symbols) for length in range(6) for symbols in product("01", repeat=length)]

PARTIAL = DFA(
    states={"p", "q"},
    input_symbols={"0", "1"},
    transitions={"p": {"1": "q"}, "q": {"1": "p"}},
    initial_state="p",
    final_states={"q"},
    allow_partial=True,
)


@given(dfas())
@settings(max_examples=30)
def test_a_dfa_survives_conversion_and_back(dfa: DFA) -> None:
    converted = (
        from_json(to_json(dfa)),
        from_networkx(to_networkx(dfa)).to_dfa(),
        from_aalpy(to_aalpy(dfa)),
        PA.from_dfa(dfa).to_dfa(),
    )
    for other in converted:
        assert isinstance(other, DFA)
        assert compare(other, dfa)


@given(pas())
@settings(max_examples=30)
def test_a_pa_survives_conversion_and_back(pa: PA) -> None:
    assert from_json(to_json(pa)) == pa
    assert from_networkx(to_networkx(pa)) == pa
    again = from_aalpy(to_aalpy(pa))
    assert isinstance(again, PA)
    assert torch.allclose(again.probability(STRINGS[1:]), pa.probability(STRINGS[1:]), atol=1e-12)


@pytest.mark.parametrize("number", [1, 2])
def test_a_pa_with_one_initial_state_and_deterministic_outputs_keeps_its_states(number: int) -> None:
    again = from_aalpy(to_aalpy(stochastic(number)))
    assert isinstance(again, PA)
    assert again.num_states == stochastic(number).num_states
    assert compare(again, stochastic(number))


def test_partial_dfas_can_be_exchanged() -> None:
    assert compare(from_json(to_json(PARTIAL)), PARTIAL)
    assert compare(from_aalpy(to_aalpy(PARTIAL)), PARTIAL)
    assert compare(from_networkx(to_networkx(PARTIAL)), PARTIAL)


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


def test_a_graph_is_one_that_networkx_works_with() -> None:
    graph = to_networkx(random_dfa(8, seed=0))
    assert networkx.is_weakly_connected(graph)
    assert len(networkx.descendants(graph, 0)) >= 7
    assert graph.graph["alphabet"] == ["0", "1"]


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


def _prism_probability(text: str, string: list[str]) -> float:
    """Probability that a PRISM model accepts a string."""
    first = re.search(r"init (\d+);", text)
    assert first is not None
    states = {int(first[1]): 1.0}
    for action in string:
        new: dict[int, float] = {}
        for state, chance in states.items():
            line = re.search(rf"\[{action}\] s={state} -> (.*);", text)
            assert line is not None
            for update in line[1].split(" + "):
                p, target = update.rstrip(")").split(":(s'=")
                new[int(target)] = new.get(int(target), 0) + chance * float(p)
        states = new
    rewards = dict(re.findall(r"^  s=(\d+) : (.*);$", text, re.MULTILINE))
    return sum(chance * float(rewards.get(str(state), 0)) for state, chance in states.items())


@given(pas())
@settings(max_examples=20)
def test_prism_text_describes_the_same_automaton(pa: PA) -> None:
    text = to_prism(pa)
    start = [] if bool((pa.initial == 1).any()) else ["start"]
    for string in STRINGS[:15]:
        found = _prism_probability(text, [*start, *(f"a_{symbol}" for symbol in string)])
        assert found == pytest.approx(float(pa.probability([string])), abs=1e-12)


def test_symbols_that_prism_cannot_name_are_numbered() -> None:
    text = to_prism(PA(torch.ones(1), torch.ones(2, 1, 1), torch.zeros(1), ("+", "ß")))
    assert '// a_0 is "+"' in text
    assert "[a_1] s=0 -> 1.0:(s'=0);" in text
    assert 'label "accept" = false;' in text


def _dfa(**changes: Any) -> str:
    """Text of a DFA with some fields changed."""
    return json.dumps(json.loads(to_json(tomita(1))) | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("{}", "not a PA: it was not written by sttau"),
        ('{"format": "sttau.dfa", "version": 2}', "format version 2"),
        ('{"format": "sttau.dfa", "version": 1}', "lacks 'alphabet'"),
        (_dfa(start=7), "the DFA in the JSON text is not valid: .*7"),
        (_dfa(accepting=[7]), "the DFA in the JSON text is not valid"),
        (_dfa(accepting=[[0]]), "the DFA in the JSON text is not valid"),
        (_dfa(moves=[{"0": 5, "1": 0}]), "the DFA in the JSON text is not valid"),
        (_dfa(moves=7), "the DFA in the JSON text is not valid"),
        (_dfa(moves=[[]]), "the DFA in the JSON text is not valid"),
        (_dfa(alphabet=None), "the DFA in the JSON text is not valid"),
        (_dfa(version="1"), "format version 1"),
        ("[" * 99999, "not JSON"),
        ("9" * 9999, "not JSON|not a PA"),
        ('{"format": ["sttau.dfa"], "version": 1}', "not a PA: it was not written by sttau"),
    ],
)
def test_other_json_is_rejected(text: str, message: str) -> None:
    with pytest.raises(AutomatonError, match=message):
        from_json(text)
    with pytest.raises(AutomatonError, match=r"mine\.json"):
        from_json(text, "mine.json")


def test_an_attribute_of_a_graph_without_a_value_is_refused() -> None:
    with pytest.raises(AutomatonError, match="cannot be read from '= ;"):
        from_dot("digraph a { rankdir= ;\n 0; start0 [shape=point]; start0 -> 0; }")
