"""Two stochastic languages: strings over {0, 1} that a probabilistic automaton accepts with some probability.

The paper's automata are published only in part, so these are defined here. They keep what is known of the paper's: its
PA-2 moves from the initial state on 0 to accept with probability 0.3 and to reject with 0.7.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from sttau.languages.pa import PA


class StochasticLanguage(NamedTuple):
    """A stochastic language over {0, 1} as the table of its probabilistic automaton.

    Attributes:
        description: Automaton in words.
        moves: ``moves[symbol][state]``, the distribution of the next state; state 0 is the initial one.
        accepting: States that accept.
    """

    description: str
    moves: tuple[tuple[tuple[float, ...], ...], ...]
    accepting: frozenset[int]


#: PA-1 and PA-2 by number.
STOCHASTIC_LANGUAGES: dict[int, StochasticLanguage] = {
    1: StochasticLanguage(
        "two states: 0 mostly stays, 1 mostly changes",
        (((0.9, 0.1), (0.3, 0.7)), ((0.2, 0.8), (0.9, 0.1))),
        frozenset({1}),
    ),
    2: StochasticLanguage(
        "three states, of which one accepts",
        (
            ((0.0, 0.3, 0.7), (0.1, 0.9, 0.0), (0.0, 0.5, 0.5)),
            ((0.6, 0.4, 0.0), (0.0, 0.2, 0.8), (0.3, 0.0, 0.7)),
        ),
        frozenset({1}),
    ),
}


def stochastic(number: int) -> PA:
    """Return PA-1 or PA-2, the automata of the stochastic languages 1 and 2 (docs/automata.md).

    Example:
        >>> stochastic(2).probability(["0", "1", "00"])
        tensor([0.3000, 0.4000, 0.6200], dtype=torch.float64)
    """
    if number not in STOCHASTIC_LANGUAGES:
        raise ValueError(f"number must be 1 or 2, got {number}")
    language = STOCHASTIC_LANGUAGES[number]
    k = len(language.moves[0])
    return PA(
        initial=torch.eye(k)[0],
        matrices=torch.tensor(language.moves, dtype=torch.float64),
        output=torch.tensor([float(state in language.accepting) for state in range(k)]),
        alphabet=("0", "1"),
    )
