from __future__ import annotations

import json
from typing import Any

import pytest

from sttau.automata import from_json, to_json, tomita
from sttau.errors import AutomatonError


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
