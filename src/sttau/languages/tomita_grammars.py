"""The seven Tomita grammars (Tomita, 1982)."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from automata.fa.dfa import DFA


class Grammar(NamedTuple):
    """A regular language over {0, 1} as the table of its minimal DFA.

    Attributes:
        description: Language in words.
        moves: ``moves[state][symbol]``, the next state; state 0 is the initial one.
        accepting: States that accept.
    """

    description: str
    moves: tuple[tuple[int, int], ...]
    accepting: frozenset[int]


#: The seven grammars by number.
TOMITA_GRAMMARS: dict[int, Grammar] = {
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


def tomita(number: int) -> DFA:
    """Return the minimal DFA of a Tomita grammar, 1 to 7.

    Example:
        >>> dfa = tomita(3)
        >>> len(dfa.states), dfa.accepts_input("100"), dfa.accepts_input("10")
        (5, True, False)
    """
    from automata.fa.dfa import DFA

    if number not in TOMITA_GRAMMARS:
        raise ValueError(f"number must be 1 … 7, got {number}")
    grammar = TOMITA_GRAMMARS[number]
    return DFA(
        states=set(range(len(grammar.moves))),
        input_symbols={"0", "1"},
        transitions={state: {"0": zero, "1": one} for state, (zero, one) in enumerate(grammar.moves)},
        initial_state=0,
        final_states=set(grammar.accepting),
    )


def sample_strings(grammar: Grammar, length: int, inside: bool, count: int, seed: int) -> list[str]:
    """Draw strings of one length uniformly from the language or from its complement.

    Counts are exact integers and the draws are those of Python's ``random``, so the data sets are the same on every
    machine. :func:`~sttau.languages.balanced_strings` is faster and works with any DFA.

    Args:
        grammar: Grammar of the language.
        length: Number of symbols.
        inside: Whether the strings are in the language.
        count: Number of strings, drawn with replacement.
        seed: Seed of the draws.

    Returns:
        ``count`` strings; none if there is no such string.

    Example:
        >>> sample_strings(TOMITA_GRAMMARS[1], 4, inside=True, count=2, seed=0)
        ['1111', '1111']
    """
    counts = _counts(grammar, length, inside)
    if counts[length][0] == 0:
        return []
    source = random.Random(f"{seed}/{length}/{inside}")
    strings = []
    for _ in range(count):
        state, symbols = 0, []
        for left in range(length - 1, -1, -1):
            zero, one = (counts[left][target] for target in grammar.moves[state])
            symbol = int(source.randrange(zero + one) >= zero)
            symbols.append("01"[symbol])
            state = grammar.moves[state][symbol]
        strings.append("".join(symbols))
    return strings


def count_strings(grammar: Grammar, length: int, inside: bool) -> int:
    """Return the number of strings of one length in the language or in its complement.

    Example:
        >>> count_strings(TOMITA_GRAMMARS[4], 4, inside=True)  # strings of four symbols without 000
        13
    """
    return _counts(grammar, length, inside)[length][0]


@cache
def _counts(grammar: Grammar, length: int, inside: bool) -> list[list[int]]:
    """``counts[n][state]``: number of strings of n symbols that lead from the state to acceptance (or rejection)."""
    counts = [[int((state in grammar.accepting) == inside) for state in range(len(grammar.moves))]]
    for _ in range(length):
        counts.append([sum(counts[-1][target] for target in targets) for targets in grammar.moves])
    return counts
