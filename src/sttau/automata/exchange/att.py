"""Acceptors in the text format of AT&T's FSM library, which OpenFst and HFST read too.

A line is an arc (source, target, symbol) or an accepting state; the initial state is the source of the first line. A
space or a backslash in a symbol cannot be written.
"""

from __future__ import annotations

from automata.fa.dfa import DFA

from sttau.automata.exchange.nondeterministic import dfa_from_transitions
from sttau.automata.exchange.states import number_states
from sttau.automata.value import AutomatonLike, as_automaton
from sttau.errors import AutomatonError

_EMPTY = ("<eps>", "<epsilon>", "@0@", "@_EPSILON_SYMBOL_@")  # names of the empty word


def to_att(automaton: AutomatonLike) -> str:
    r"""Return a DFA in the AT&T format.

    Example:
        >>> from sttau.automata import tomita
        >>> to_att(tomita(1)).splitlines()
        ['0\t1\t0', '0\t0\t1', '1\t1\t0', '1\t1\t1', '0']
    """
    dfa = as_automaton(automaton)
    if not isinstance(dfa, DFA):
        raise TypeError("weights of this format are not probabilities of acceptance: write a PA as .json")
    bad = [symbol for symbol in dfa.input_symbols if not symbol or set(symbol) & set(" \t\n\\") or symbol in _EMPTY]
    if bad:
        raise ValueError(f"the symbol {sorted(bad)[0]!r} cannot be written in the AT&T format; write .json")
    number = number_states(dfa)
    lines = [
        f"{n}\t{number[target]}\t{symbol}"
        for state, n in number.items()
        for symbol, target in sorted(dfa.transitions[state].items())
    ]
    return "\n".join([*lines, *(str(n) for state, n in number.items() if state in dfa.final_states)]) + "\n"


def from_att(text: str, source: str = "the AT&T text") -> DFA:
    """Return the DFA of an acceptor without weights, which may be nondeterministic.

    Args:
        text: Content of the file.
        source: Name of the file for error messages.

    Raises:
        AutomatonError: If the text holds no acceptor, or one with weights or outputs.

    Example:
        >>> from sttau.automata import compare, tomita
        >>> compare(from_att(to_att(tomita(5))), tomita(5))
        Equivalence(equal=True, counterexample=None)
    """
    transitions, accepting = [], []
    initial: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) in (4, 5) or (len(parts) == 2 and _is_weight(parts[1])):
            *rest, last = parts
            if _is_weight(last) and float(last) == 0:
                parts = rest
        if len(parts) == 4 and parts[2] == parts[3]:
            parts = parts[:3]  # a transducer whose output is its input
        if initial is None:
            initial = parts[0]
        if len(parts) == 3:
            transitions.append((parts[0], "" if parts[2] in _EMPTY else parts[2], parts[1]))
        elif len(parts) == 1:
            accepting.append(parts[0])
        else:
            raise AutomatonError(
                f"{source}, line {number}: expected source, target and symbol, or an accepting state, got "
                f"{line[:60]!r}; weights and outputs are not read"
            )
    return dfa_from_transitions([], transitions, initial, accepting, source)


def _is_weight(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
