"""DFAs from lists of transitions, as files of other programs have them; several targets or empty words are allowed."""

from __future__ import annotations

from collections.abc import Iterable

from automata.fa.dfa import DFA
from automata.fa.nfa import NFA

from sttau.automata.exchange.states import build_dfa, number_states
from sttau.errors import AutomatonError


def dfa_from_transitions(
    states: Iterable[str],
    transitions: Iterable[tuple[str, str, str]],
    initial: str | None,
    accepting: Iterable[str],
    source: str,
) -> DFA:
    """Return the DFA of an automaton, which may be nondeterministic; its states are numbered breadth first.

    Args:
        states: Names of the states.
        transitions: Source, symbol and target of each transition; an empty symbol reads nothing.
        initial: Name of the initial state.
        accepting: Names of accepting states.
        source: Name of the file for error messages.

    Example:
        >>> from sttau.automata import compare, from_regex
        >>> found = dfa_from_transitions("pq", [("p", "a", "q"), ("q", "b", "p")], "p", "p", "the text")
        >>> compare(found, from_regex("(ab)*", "ab"))
        Equivalence(equal=True, counterexample=None)
    """
    if initial is None:
        raise AutomatonError(f"{source} has no initial state")
    moves: dict[str, dict[str, set[str]]] = {state: {} for state in (*states, initial)}
    for origin, symbol, target in transitions:
        for state in (origin, target):
            moves.setdefault(state, {})
        moves[origin].setdefault(symbol, set()).add(target)
    alphabet = sorted({symbol for row in moves.values() for symbol in row if symbol})
    if not alphabet:
        raise AutomatonError(f"{source} has no transition that reads a symbol")
    if unknown := set(accepting) - set(moves):
        raise AutomatonError(f"{source} has no state {sorted(unknown)[0]!r}, which is said to accept")
    if any(symbol == "" or len(targets) > 1 for row in moves.values() for symbol, targets in row.items()):
        nfa = NFA(
            states=set(moves),
            input_symbols=set(alphabet),
            transitions=moves,
            initial_state=initial,
            final_states=set(accepting),
        )
        return DFA.from_nfa(nfa)
    single = {state: {symbol: next(iter(targets)) for symbol, targets in row.items()} for state, row in moves.items()}
    made = build_dfa(alphabet, single, initial, set(accepting))
    number = number_states(made)
    reached = {number[s]: {a: number[t] for a, t in single[s].items()} for s in number}
    return build_dfa(alphabet, reached, 0, {number[state] for state in accepting if state in number})
