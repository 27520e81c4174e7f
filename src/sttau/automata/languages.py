"""Formal languages as automata."""

from __future__ import annotations

from automata.fa.dfa import DFA

from sttau.data.tomita import GRAMMARS


def tomita(number: int) -> DFA:
    """Return the minimal DFA of a Tomita grammar, 1 to 7.

    Example:
        >>> dfa = tomita(3)
        >>> len(dfa.states), dfa.accepts_input("100"), dfa.accepts_input("10")
        (5, True, False)
    """
    if number not in GRAMMARS:
        raise ValueError(f"number must be 1 … 7, got {number}")
    grammar = GRAMMARS[number]
    return DFA(
        states=set(range(len(grammar.moves))),
        input_symbols={"0", "1"},
        transitions={state: {"0": zero, "1": one} for state, (zero, one) in enumerate(grammar.moves)},
        initial_state=0,
        final_states=set(grammar.accepting),
    )
