"""Two stochastic languages: strings over {0, 1} that a probabilistic automaton accepts with some probability.

The paper's own automata survive only in part, so these are ours, with what is known of the paper's: its PA-2 leads
from its
start on 0 to accept with probability 0.3 and to reject with 0.7. Sizes are the paper's. An automaton is a table:
``moves[symbol][state]`` is the law of the next state, state 0 is the start. Every sequence begins with the start
token ``^``.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from sttau.data.dataset import SequenceDataset
from sttau.data.entry import Entry
from sttau.data.source import Array, Source
from sttau.data.split import draw_uniform, shuffle
from sttau.data.tomita import VOCABULARY

_COPIES = 10


class ProbabilisticGrammar(NamedTuple):
    """A stochastic language over {0, 1} as a probabilistic automaton."""

    description: str
    moves: tuple[tuple[tuple[float, ...], ...], ...]
    accepting: frozenset[int]
    longest: int  # of the training strings
    strings: int  # distinct ones to train on

    def probability(self, string: str) -> float:
        """Return the probability that the string is accepted.

        Example:
            >>> round(PROBABILISTIC_GRAMMARS[2].probability("0"), 3)
            0.3
        """
        law = np.zeros(len(self.moves[0]))
        law[0] = 1
        for symbol in string:
            law = law @ np.array(self.moves[int(symbol)])
        return float(law[sorted(self.accepting)].sum())


PROBABILISTIC_GRAMMARS: dict[int, ProbabilisticGrammar] = {
    1: ProbabilisticGrammar(
        "two states: 0 mostly stays, 1 mostly changes",
        (((0.9, 0.1), (0.3, 0.7)), ((0.2, 0.8), (0.9, 0.1))),
        frozenset({1}),
        longest=9,
        strings=1017,
    ),
    2: ProbabilisticGrammar(
        "three states, of which one accepts",
        (
            ((0.0, 0.3, 0.7), (0.1, 0.9, 0.0), (0.0, 0.5, 0.5)),
            ((0.6, 0.4, 0.0), (0.0, 0.2, 0.8), (0.3, 0.0, 0.7)),
        ),
        frozenset({1}),
        longest=10,
        strings=2046,
    ),
}

#: how much longer than the longest training string those of a part are, and how many of each length
_HELD_OUT = {"validation": ((1, 2), 50), "test": ((3, 4, 5, 6), 100)}


def describe_stochastic(number: int) -> Source:
    """Return what is known about a stochastic language."""
    grammar = PROBABILISTIC_GRAMMARS[number]
    sizes = {"train": _COPIES * grammar.strings}
    sizes |= {split: _COPIES * len(more) * count for split, (more, count) in _HELD_OUT.items()}
    return Source(
        name=f"stochastic{number}",
        title=f"Stochastic language {number}: {grammar.description}",
        license="generated, free",
        citation="defined in sttau; sizes after C. Wang, C. Lawrence, M. Niepert, ICLR 2021",
        sizes=sizes,
    )


def load_stochastic(number: int, split: str) -> SequenceDataset:
    """Return strings of a stochastic language, ten copies of each, every copy labeled by a draw of its own.

    Training strings are all those with 1 to 9 symbols (language 1) or 1 to 10 (language 2). Of the 1,022 strings of
    language 1 the paper has 1,017, and does not say which; ours lack five of the longest. Validation strings are one
    or two symbols longer than the longest training string, test strings three to six; all are distinct, so none is in
    two splits.
    """
    grammar = PROBABILISTIC_GRAMMARS[number]
    if split == "train":
        lengths = range(1, grammar.longest + 1)
        strings = ["".join(symbols) for length in lengths for symbols in product("01", repeat=length)]
        last = [*range(len(strings) - 2**grammar.longest), *_of_longest(strings, grammar)]
        strings = [strings[row] for row in sorted(last)]
    else:
        more, count = _HELD_OUT[split]
        strings = [
            format(row, f"0{grammar.longest + extra}b")
            for extra in more
            for row in sorted(shuffle(2 ** (grammar.longest + extra), seed=number)[:count].tolist())
        ]
    strings = [string for string in strings for _ in range(_COPIES)]
    chances = {string: grammar.probability(string) for string in set(strings)}
    draws = draw_uniform(len(strings), seed=10 * number + ("train", "validation", "test").index(split))
    longest = max(map(len, strings)) + 1
    inputs = torch.zeros(len(strings), longest, dtype=torch.int64)
    for row, string in enumerate(strings):
        inputs[row, 1 : len(string) + 1] = torch.tensor([int(symbol) + 1 for symbol in string])
    return SequenceDataset(
        name=f"stochastic{number}",
        split=split,
        inputs=inputs,
        lengths=torch.tensor([len(string) + 1 for string in strings]),
        labels=torch.tensor([int(draw < chances[s]) for draw, s in zip(draws, strings, strict=True)]),
        class_names=("reject", "accept"),
        vocabulary=VOCABULARY,
        provenance=describe_stochastic(number).provenance("Generated, labels drawn by a fixed seed"),
    )


def _of_longest(strings: list[str], grammar: ProbabilisticGrammar) -> Array:
    """Positions of the longest strings that are kept."""
    shorter = len(strings) - 2**grammar.longest
    kept: Array = shorter + shuffle(2**grammar.longest, seed=0)[: grammar.strings - shorter]
    return kept


DATASETS = {
    f"stochastic{number}": Entry(partial(load_stochastic, number), describe_stochastic(number))
    for number in PROBABILISTIC_GRAMMARS
}
