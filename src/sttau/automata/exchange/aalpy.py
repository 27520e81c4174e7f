"""Automata of AALpy, a library for automata learning."""

from __future__ import annotations

from typing import Any

import torch
from automata.fa.dfa import DFA

from sttau.automata.exchange.states import build_dfa, number_states
from sttau.automata.value import AutomatonLike, as_automaton
from sttau.languages import PA

_ACCEPT, _REJECT = "accept", "reject"


def to_aalpy(automaton: AutomatonLike) -> Any:
    """Return an ``aalpy`` automaton: a ``Dfa``, or for a PA an ``Mdp`` whose states output "accept" or "reject".

    A state of the PA that accepts with a probability between 0 and 1 becomes two. An Mdp has one initial state with one
    output: if the PA has several, a state is added before them, with output "start" for the empty string.

    Example:
        >>> from sttau.automata import tomita
        >>> to_aalpy(tomita(3)).size
        5
    """
    automata = import_aalpy().automata
    automaton = as_automaton(automaton)
    if isinstance(automaton, DFA):
        if any(len(moves) < len(automaton.input_symbols) for moves in automaton.transitions.values()):
            automaton = automaton.to_complete()
        number = number_states(automaton)
        accepting = automaton.final_states
        states = {state: automata.DfaState(f"s{n}", state in accepting) for state, n in number.items()}
        for state, made in states.items():
            made.transitions = {a: states[target] for a, target in sorted(automaton.transitions[state].items())}
        return automata.Dfa(states[automaton.initial_state], list(states.values()))
    outputs, table = automaton.output.tolist(), automaton.matrices.tolist()
    copies = {
        (state, answer): chance
        for state, output in enumerate(outputs)
        for answer, chance in ((_ACCEPT, output), (_REJECT, 1 - output))
        if chance > 0
    }
    made = {(state, answer): automata.MdpState(f"s{state}_{answer}", answer) for state, answer in copies}

    def link(source: Any, symbol: str, row: list[float]) -> None:
        for (state, answer), chance in copies.items():
            if row[state] * chance > 0:
                source.transitions[symbol].append((made[state, answer], row[state] * chance))

    for (state, _), source in made.items():
        for a, symbol in enumerate(automaton.alphabet):
            link(source, symbol, table[a][state])
    firsts = [(state, answer) for state, answer in copies if float(automaton.initial[state]) > 0]
    if len(firsts) == 1:
        return automata.Mdp(made[firsts[0]], list(made.values()))
    start = automata.MdpState("start", "start")
    for symbol, matrix in zip(automaton.alphabet, automaton.matrices, strict=True):
        link(start, symbol, (automaton.initial @ matrix).tolist())
    return automata.Mdp(start, [start, *made.values()])


def from_aalpy(automaton: Any, accept: Any = _ACCEPT) -> DFA | PA:
    """Return a DFA for an AALpy ``Dfa``, a PA for an ``Mdp``.

    A ``MarkovChain`` has no inputs and accepts nothing; it generates strings:
    :func:`sttau.automata.generative.from_markov_chain`.

    Args:
        automaton: Automaton of AALpy. Missing moves of an ``Mdp`` lead to a dead state that rejects.
        accept: Output of an ``Mdp``'s state that means "accept".
    """
    automata = import_aalpy().automata
    if isinstance(automaton, automata.Dfa):
        number = {id(state): n for n, state in enumerate(automaton.states)}
        moves = {
            number[id(state)]: {str(a): number[id(target)] for a, target in state.transitions.items()}
            for state in automaton.states
        }
        alphabet = {a for row in moves.values() for a in row}
        accepting = {number[id(state)] for state in automaton.states if state.is_accepting}
        return build_dfa(alphabet, moves, number[id(automaton.initial_state)], accepting)
    if not isinstance(automaton, automata.Mdp):
        hint = (
            "; sttau.automata.generative.from_markov_chain reads it"
            if "MarkovChain" in type(automaton).__name__
            else ""
        )
        raise TypeError(f"automaton must be an AALpy Dfa or Mdp, got {type(automaton).__name__}{hint}")
    states = list(automaton.states)
    place = {id(state): row for row, state in enumerate(states)}
    symbols = sorted({a for state in states for a, moves in state.transitions.items() if moves}, key=str)
    k = len(states)
    matrices = torch.zeros(len(symbols), k + 1, k + 1, dtype=torch.float64)
    for state in states:
        for a, symbol in enumerate(symbols):
            for target, chance in state.transitions.get(symbol, ()):
                matrices[a, place[id(state)], place[id(target)]] += chance
    dead = matrices.sum(-1) == 0
    matrices[..., k] += dead.double()
    if not bool(dead[:, :k].any()):
        matrices, k = matrices[:, :k, :k], k - 1
    initial = torch.zeros(k + 1, dtype=torch.float64)
    initial[place[id(automaton.initial_state)]] = 1
    output = torch.tensor([float(state.output == accept) for state in states] + [0.0])[: k + 1]
    return PA(initial, matrices, output, tuple(map(str, symbols)))


def import_aalpy() -> Any:
    """Return AALpy; an error that names the extra to install if it is missing."""
    try:
        import aalpy.automata
    except ImportError as error:
        raise ImportError("AALpy is not installed: pip install 'sttau[automata]'") from error
    return aalpy
