"""The seven Tomita grammars (Tomita, 1982) and balanced samples of their strings.

A grammar is a table: ``moves[state][symbol]`` is the next state, state 0 is the start. Every sequence begins with the
start token ``^`` (the x_0 of the paper's Algorithm 1), so that the empty string is a sequence too.
"""

from __future__ import annotations

import random
from functools import cache, partial
from typing import NamedTuple

import torch

from sttau.data.dataset import SequenceDataset
from sttau.data.entry import Entry
from sttau.data.source import Source

VOCABULARY = ("^", "0", "1")


class Grammar(NamedTuple):
    """A regular language over {0, 1} as its minimal automaton."""

    description: str
    moves: tuple[tuple[int, int], ...]
    accepting: frozenset[int]

    def accepts(self, string: str) -> bool:
        """Whether the string is in the language.

        Example:
            >>> GRAMMARS[3].accepts("100"), GRAMMARS[3].accepts("10")
            (True, False)
        """
        state = 0
        for symbol in string:
            state = self.moves[state][int(symbol)]
        return state in self.accepting


GRAMMARS: dict[int, Grammar] = {
    1: Grammar("1*", ((1, 0), (1, 1)), frozenset({0})),
    2: Grammar("(10)*", ((2, 1), (0, 2), (2, 2)), frozenset({0})),
    3: Grammar(
        "no odd run of 0s anywhere after an odd run of 1s",
        ((0, 1), (2, 0), (3, 4), (2, 3), (4, 4)),
        frozenset({0, 1, 3}),
    ),
    4: Grammar("no 000", ((1, 0), (2, 0), (3, 0), (3, 3)), frozenset({0, 1, 2})),
    5: Grammar("an even number of 0s and an even number of 1s", ((1, 2), (0, 3), (3, 0), (2, 1)), frozenset({0})),
    6: Grammar("the numbers of 0s and of 1s differ by a multiple of 3", ((1, 2), (2, 0), (0, 1)), frozenset({0})),
    7: Grammar("0*1*0*1*", ((0, 1), (2, 1), (2, 3), (4, 3), (4, 4)), frozenset({0, 1, 2, 3})),
}


def sample_strings(grammar: Grammar, length: int, inside: bool, count: int, seed: int) -> list[str]:
    """Draw strings of one length uniformly from the language or from its complement.

    Returns:
        ``count`` strings, with repetition; none if there is no such string.

    Example:
        >>> sample_strings(GRAMMARS[1], 4, inside=True, count=2, seed=0)
        ['1111', '1111']
    """
    ways = _ways(grammar, length, inside)
    if ways[length][0] == 0:
        return []
    source = random.Random(f"{seed}/{length}/{inside}")
    strings = []
    for _ in range(count):
        state, symbols = 0, []
        for left in range(length - 1, -1, -1):
            zero, one = (ways[left][target] for target in grammar.moves[state])
            symbol = int(source.randrange(zero + one) >= zero)
            symbols.append("01"[symbol])
            state = grammar.moves[state][symbol]
        strings.append("".join(symbols))
    return strings


@cache
def _ways(grammar: Grammar, length: int, inside: bool) -> list[list[int]]:
    """``ways[n][state]``: how many strings of n symbols lead from the state to where we want to end."""
    ways = [[int((state in grammar.accepting) == inside) for state in range(len(grammar.moves))]]
    for _ in range(length):
        ways.append([sum(ways[-1][target] for target in targets) for targets in grammar.moves])
    return ways


#: lengths and sequences of each length and class: short strings to learn from, longer ones to be tested on
_SPLITS = {"train": (range(17), 64), "validation": (range(17, 25), 32), "test": (range(25, 101, 5), 32)}


def describe_tomita(number: int) -> Source:
    """Return what is known about a Tomita grammar."""
    grammar = GRAMMARS[number]
    sizes = {
        split: count
        * sum(_ways(grammar, length, inside)[length][0] > 0 for length in lengths for inside in (True, False))
        for split, (lengths, count) in _SPLITS.items()
    }
    return Source(
        name=f"tomita{number}",
        title=f"Tomita grammar {number}, {grammar.description}",
        license="generated, free",
        citation="M. Tomita, Dynamic construction of finite-state automata from examples using hill-climbing, 1982",
        sizes=sizes,
    )


def load_tomita(number: int, split: str) -> SequenceDataset:
    """Return strings of a Tomita grammar, half of them in the language where there are such strings.

    Training strings have at most 16 symbols, validation strings 17 to 24, test strings 25 to 100. Lengths differ, so no
    string is in two splits.
    """
    grammar = GRAMMARS[number]
    lengths, count = _SPLITS[split]
    pairs = [
        (string, inside)
        for length in lengths
        for inside in (False, True)
        for string in sample_strings(grammar, length, inside, count, seed=number)
    ]
    longest = max(len(string) for string, _ in pairs) + 1
    inputs = torch.zeros(len(pairs), longest, dtype=torch.int64)
    for row, (string, _) in enumerate(pairs):
        inputs[row, 1 : len(string) + 1] = torch.tensor([int(symbol) + 1 for symbol in string], dtype=torch.int64)
    return SequenceDataset(
        name=f"tomita{number}",
        split=split,
        inputs=inputs,
        lengths=torch.tensor([len(string) + 1 for string, _ in pairs]),
        labels=torch.tensor([int(inside) for _, inside in pairs]),
        class_names=("reject", "accept"),
        vocabulary=VOCABULARY,
        provenance=describe_tomita(number).provenance("Generated by a fixed seed"),
    )


DATASETS = {f"tomita{number}": Entry(partial(load_tomita, number), describe_tomita(number)) for number in GRAMMARS}
