"""Random generative automata, and all paths of a string through one."""

from __future__ import annotations

from itertools import product

import numpy as np

from sttau.automata.generative import GenerativeAutomaton

WORDS = ["".join(word) for length in range(5) for word in product("ab", repeat=length)]


def random_automaton(seed: int, k: int = 3) -> GenerativeAutomaton:
    source = np.random.default_rng(seed)
    rows = source.dirichlet(np.full(2 * k + 1, 0.5), size=k)
    ends = 0.2 + 0.6 * rows[:, -1]
    moves = rows[:, :-1] / rows[:, :-1].sum(-1, keepdims=True) * (1 - ends)[:, None]
    return GenerativeAutomaton(
        source.dirichlet(np.ones(k)), moves.reshape(k, 2, k).transpose(1, 0, 2), ends, ("a", "b")
    )


def paths(automaton: GenerativeAutomaton, word: str) -> list[tuple[float, tuple[int, ...]]]:
    found = []
    for path in product(range(automaton.num_states), repeat=len(word) + 1):
        p = automaton.initial[path[0]] * automaton.ends[path[-1]]
        for step, symbol in enumerate(word):
            p *= automaton.moves["ab".index(symbol), path[step], path[step + 1]]
        found.append((float(p), path))
    return found
