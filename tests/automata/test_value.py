from __future__ import annotations

import pytest
import torch
from automata.fa.dfa import DFA
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from sttau.automata import (
    PA,
    accepts,
    as_automaton,
    balanced_strings,
    bernoulli_kl,
    compare,
    compile,
    distance,
    extract_dfa,
    extract_pa,
    learn,
    mutations,
    reduce,
    rms_distance,
    stochastic,
    to_aalpy,
    to_dot,
    to_json,
    to_networkx,
    to_prism,
    tomita,
)
from sttau.automata.value import AutomatonLike
from sttau.data import load
from sttau.plotting.automaton import drawing

VOCABULARY = ("^", "0", "1")


def _model() -> SequenceClassifier:
    torch.manual_seed(0)
    return SequenceClassifier(STTauGRU(4, 8, num_states=4), 2, nn.Embedding(3, 4))


def _values() -> list[tuple[AutomatonLike, DFA | PA]]:
    model = _model()
    dfa, pa, tables = extract_dfa(model, VOCABULARY), extract_pa(model, VOCABULARY), compile(model, VOCABULARY)
    small = reduce(pa.full, 0.1)
    return [(dfa, dfa.dfa), (pa, pa.pa), (tables, tables.pa()), (small, small.pa)]


@pytest.mark.parametrize(
    ("value", "automaton"), _values(), ids=["ExtractedDFA", "ExtractedPA", "compiled", "reduction"]
)
def test_values_that_stand_for_an_automaton_are_accepted_everywhere(value: AutomatonLike, automaton: DFA | PA) -> None:
    assert as_automaton(value) == automaton
    assert compare(value, automaton)
    assert compare(automaton, value)
    assert distance(value, automaton, length=3).sup == 0
    assert rms_distance(value, automaton) < 1e-7
    assert bernoulli_kl(value, automaton, length=3) == 0
    assert to_dot(value) == to_dot(automaton)
    assert to_json(value) == to_json(automaton)
    assert to_prism(value) == to_prism(automaton)
    assert to_aalpy(value).size == to_aalpy(automaton).size
    assert to_networkx(value).number_of_edges() == to_networkx(automaton).number_of_edges()
    assert reduce(value).pa == reduce(automaton).pa
    assert len(drawing(value).axes) == 1


def test_other_values_are_rejected_with_a_hint() -> None:
    with pytest.raises(TypeError, match=r"got SequenceClassifier; sttau\.automata\.extract_dfa"):
        compare(_model(), tomita(1))  # type: ignore[arg-type]


def test_all_that_stands_for_a_dfa_is_accepted() -> None:
    learned = learn(load("tomita1", "train"))
    strings = ["", "1", "11", "10"]
    for value in (learned, extract_dfa(learned.model), PA.from_dfa(tomita(1)), tomita(1)):
        assert accepts(value, strings).tolist() == [True, True, True, False]
        assert balanced_strings(value, [3], 2, seed=0)[0] == balanced_strings(tomita(1), [3], 2, seed=0)[0]
        assert mutations(value, strings, seed=0)[0] == mutations(tomita(1), strings, seed=0)[0]
    with pytest.raises(ValueError, match="not deterministic"):
        accepts(stochastic(1), strings)
