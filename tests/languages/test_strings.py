from __future__ import annotations

import math
from collections import Counter
from itertools import product

import pytest
from automata.fa.dfa import DFA
from hypothesis import given

from sttau.languages import accepts, balanced_strings, from_regex, mutations, tomita
from tests.languages.strategies import dfas


@given(dfas())
def test_a_batch_of_strings_is_accepted_as_one_by_one(dfa: DFA) -> None:
    strings = ["".join(symbols) for n in range(6) for symbols in product("01", repeat=n)]
    assert accepts(dfa, strings).tolist() == [dfa.accepts_input(string) for string in strings]


@given(dfas())
def test_balanced_strings_are_half_inside_where_they_can_be(dfa: DFA) -> None:
    strings, labels = balanced_strings(dfa, [0, 3, 40], 4, seed=0)
    assert labels.tolist() == [dfa.accepts_input(string) for string in strings]
    assert set(map(len, strings)) == {0, 3, 40}
    there = {dfa.accepts_input("".join(symbols)) for symbols in product("01", repeat=3)}
    found = [bool(label) for string, label in zip(strings, labels, strict=True) if len(string) == 3]
    assert Counter(found) == dict.fromkeys(there, 4)


def test_strings_of_one_length_are_equally_likely() -> None:
    strings, labels = balanced_strings(tomita(4), [5], 20000, seed=0)
    for inside in (True, False):
        counts = Counter(s for s, label in zip(strings, labels, strict=True) if bool(label) == inside)
        every = [s for s in map("".join, product("01", repeat=5)) if tomita(4).accepts_input(s) == inside]
        assert sorted(counts) == every
        expected = 20000 / len(every)
        chi2 = sum((count - expected) ** 2 / expected for count in counts.values())
        assert chi2 < len(every) + 5 * math.sqrt(2 * len(every))


@pytest.mark.parametrize("number", range(1, 8))
def test_strings_of_1000_symbols_and_their_mutations_have_true_labels(number: int) -> None:
    dfa = tomita(number)
    strings, labels = balanced_strings(dfa, [999, 1000, 3000], 3, seed=number)
    assert labels.tolist() == [dfa.accepts_input(string) for string in strings]
    assert set(labels.tolist()) == {True, False}
    changed, truth = mutations(dfa, ["", *strings], seed=0)
    assert truth.tolist() == [dfa.accepts_input(string) for string in changed]
    assert all(sum(a != b for a, b in zip(s, t, strict=True)) == 1 for s, t in zip(strings, changed, strict=True))


def test_strings_depend_on_their_seed_and_not_on_other_lengths() -> None:
    alone, _ = balanced_strings(tomita(3), [30], 5, seed=2)
    among, _ = balanced_strings(tomita(3), [10, 30, 50], 5, seed=2)
    assert alone == among[10:20]
    assert alone != balanced_strings(tomita(3), [30], 5, seed=3)[0]


def test_wrong_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="at least one length"):
        balanced_strings(tomita(1), [], 1, seed=0)
    with pytest.raises(ValueError, match="none that is negative"):
        balanced_strings(tomita(1), [-1], 1, seed=0)
    with pytest.raises(ValueError, match="at least two symbols"):
        mutations(from_regex("a*", "a"), ["a"], seed=0)
    with pytest.raises(ValueError, match="not in the alphabet"):
        accepts(tomita(1), ["012"])
