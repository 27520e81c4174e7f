from __future__ import annotations

import torch
from automata.fa.dfa import DFA
from hypothesis import given, settings

from sttau.automata import PA, compare, from_aalpy, from_json, from_networkx, to_aalpy, to_json, to_networkx
from tests.automata.exchange.strings import STRINGS
from tests.languages.strategies import dfas, pas

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


def test_partial_dfas_can_be_exchanged() -> None:
    assert compare(from_json(to_json(PARTIAL)), PARTIAL)
    assert compare(from_aalpy(to_aalpy(PARTIAL)), PARTIAL)
    assert compare(from_networkx(to_networkx(PARTIAL)), PARTIAL)
