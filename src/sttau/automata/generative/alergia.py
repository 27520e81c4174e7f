"""ALERGIA for unlabeled strings, through AALpy, and AALpy's Markov chains as generative automata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sttau.automata.exchange.aalpy import import_aalpy
from sttau.automata.generative.automaton import GenerativeAutomaton, Word

_START, _END = "<start>", "<end>"


def from_markov_chain(chain: Any, end: Any = _END) -> GenerativeAutomaton:
    """Return an AALpy ``MarkovChain`` as an automaton that generates the outputs after its initial state.

    Args:
        chain: Markov chain of AALpy, whose states have outputs.
        end: Output that ends a string; states with it are left out.
    """
    automata = import_aalpy().automata
    if not isinstance(chain, automata.MarkovChain):
        raise TypeError(f"chain must be an AALpy MarkovChain, got {type(chain).__name__}")
    states = [state for state in chain.states if state.output != end]
    place = {id(state): row for row, state in enumerate(states)}
    targets = {id(t): t.output for state in states for t, _ in state.transitions if t.output != end}
    symbols = tuple(sorted(map(str, set(targets.values()))))
    moves, ends = np.zeros((len(symbols), len(states), len(states))), np.zeros(len(states))
    for row, state in enumerate(states):
        for target, chance in state.transitions:
            if target.output == end:
                ends[row] += chance
            else:
                moves[symbols.index(str(target.output)), row, place[id(target)]] += chance
        if not state.transitions:
            ends[row] = 1.0
    initial = np.zeros(len(states))
    initial[place[id(chain.initial_state)]] = 1
    return GenerativeAutomaton(initial, moves, ends, symbols)


def learn_by_alergia(strings: Sequence[Word], *, epsilon: float = 0.05) -> GenerativeAutomaton:
    """Learn a PDFA by ALERGIA, which merges prefixes with similar continuations. Requires AALpy.

    Args:
        strings: Strings.
        epsilon: Parameter of the Hoeffding tests; smaller values merge more states.

    Example:
        >>> pdfa = learn_by_alergia(["ab", "abab", "", "ab"] * 20)
        >>> pdfa.is_deterministic(), bool(pdfa.log_probability(["ab"])[0] > -2)
        (True, True)
    """
    import_aalpy()
    from aalpy.learning_algs import run_Alergia

    traces = [[_START, *map(str, word), _END] for word in strings]
    return from_markov_chain(run_Alergia(traces, "mc", eps=epsilon))
