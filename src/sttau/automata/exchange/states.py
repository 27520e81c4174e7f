"""Numbered states of DFAs."""

from __future__ import annotations

from typing import Any

from automata.fa.dfa import DFA


def number_states(dfa: DFA) -> dict[Any, int]:
    """Return the numbers of all reachable states, in breadth-first order."""
    number: dict[Any, int] = {dfa.initial_state: 0}
    queue: list[Any] = [dfa.initial_state]
    for state in queue:
        for symbol in sorted(dfa.transitions[state]):
            target = dfa.transitions[state][symbol]
            if target not in number:
                number[target] = len(number)
                queue.append(target)
    return number


def build_dfa(alphabet: Any, moves: dict[Any, dict[str, Any]], start: Any, accepting: set[Any]) -> DFA:
    """Return a DFA, complete or not."""
    return DFA(
        states=set(moves),
        input_symbols=set(alphabet),
        transitions=moves,
        initial_state=start,
        final_states=accepting,
        allow_partial=any(len(row) < len(set(alphabet)) for row in moves.values()),
    )
