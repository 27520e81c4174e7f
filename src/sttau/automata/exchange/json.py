"""Automata as JSON text."""

from __future__ import annotations

from automata.fa.dfa import DFA

from sttau.automata.exchange.states import build_dfa, number_states
from sttau.automata.value import AutomatonLike, as_automaton
from sttau.errors import AutomatonError, reading
from sttau.formats import Format, parse_json
from sttau.languages import PA

DFA_FORMAT = Format("sttau.dfa", error=AutomatonError)


def to_json(automaton: AutomatonLike) -> str:
    """Return an automaton as JSON text; states of a DFA are numbered in breadth-first order.

    Example:
        >>> from sttau.automata import compare, tomita
        >>> compare(from_json(to_json(tomita(3))), tomita(3))
        Equivalence(equal=True, counterexample=None)
    """
    automaton = as_automaton(automaton)
    if isinstance(automaton, PA):
        return automaton.to_json()
    number = number_states(automaton)
    return DFA_FORMAT.to_json(
        {
            "alphabet": sorted(automaton.input_symbols),
            "start": 0,
            "accepting": [n for state, n in number.items() if state in automaton.final_states],
            "moves": [
                {symbol: number[target] for symbol, target in sorted(automaton.transitions[state].items())}
                for state in number
            ],
        }
    )


def from_json(text: str, source: str = "the JSON text") -> DFA | PA:
    """Read text that :func:`to_json` wrote, in this or an older version of the format.

    Args:
        text: JSON text.
        source: Name of the file for error messages.

    Raises:
        AutomatonError: If the text holds no automaton.
    """
    content = parse_json(text, source, AutomatonError)
    if not isinstance(content, dict) or content.get("format") != DFA_FORMAT.tag:
        return PA.from_json(text, source)
    content = DFA_FORMAT.from_json(text, source)
    with reading(f"the DFA in {source}", AutomatonError):
        alphabet, moves = content["alphabet"], dict(enumerate(content["moves"]))
        return build_dfa(alphabet, moves, content["start"], set(content["accepting"]))
