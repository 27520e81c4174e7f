from __future__ import annotations

import math
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
import torch
from automata.fa.dfa import DFA
from hypothesis import given

from sttau.automata import (
    accepts,
    as_dataset,
    balanced_strings,
    compare,
    from_regex,
    mutations,
    random_dfa,
    random_pa,
    stochastic,
    tomita,
)
from sttau.data import load
from sttau.data.stochastic import PROBABILISTIC_GRAMMARS
from sttau.data.tomita import GRAMMARS, sample_strings
from tests.automata.nursery import dfas


@pytest.mark.parametrize("number", range(1, 8))
def test_a_tomita_dfa_is_minimal_and_agrees_with_its_grammar(number: int) -> None:
    dfa = tomita(number)
    assert len(dfa.minify().states) == len(dfa.states)
    for length in (0, 1, 5, 50):
        for inside in (True, False):
            for string in sample_strings(GRAMMARS[number], length, inside, 10, seed=0):
                assert dfa.accepts_input(string) == inside


def test_there_are_seven_and_two() -> None:
    with pytest.raises(ValueError, match=r"number must be 1 … 7, got 8"):
        tomita(8)
    with pytest.raises(ValueError, match=r"number must be 1 or 2, got 3"):
        stochastic(3)


@pytest.mark.parametrize("number", [1, 2])
def test_a_stochastic_language_is_its_grammar_and_labels_follow_it(number: int) -> None:
    pa = stochastic(number)
    strings = ["".join(symbols) for n in range(7) for symbols in product("01", repeat=n)]
    expected = [PROBABILISTIC_GRAMMARS[number].probability(string) for string in strings]
    assert pa.probability(strings).tolist() == pytest.approx(expected, abs=1e-15)
    data = load(f"stochastic{number}", "train")
    p = pa.probability(data.inputs[:, 1:] - 1, data.lengths - 1)
    deviation = float((p * (1 - p)).sum().sqrt())
    assert abs(float(data.labels.sum() - p.sum())) < 4 * deviation


def test_the_papers_one_published_edge() -> None:
    assert stochastic(2).probability(["0"]).tolist() == [0.3]


@pytest.mark.parametrize(
    ("expression", "number"),
    [("1*", 1), ("(10)*", 2), ("(1|01|001)*(0|00)?", 4), ("0*1*0*1*", 7)],
)
def test_regular_expressions_are_the_grammars(expression: str, number: int) -> None:
    dfa = from_regex(expression)
    assert compare(dfa, tomita(number))
    assert dfa.states == set(range(len(tomita(number).states)))
    assert all(len(moves) == 2 for moves in dfa.transitions.values())


def test_symbols_that_an_expression_does_not_hold_are_read_too() -> None:
    assert accepts(from_regex("a*", "abc"), ["aa", "ab", "c"]).tolist() == [True, False, False]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 25])
def test_a_random_dfa_has_the_size_asked_for_and_follows_its_seed(size: int) -> None:
    dfa = random_dfa(size, "abc", seed=1)
    assert len(dfa.minify().states) == size
    assert dfa == random_dfa(size, "cba", seed=1)


def test_random_automata_differ_by_seed() -> None:
    assert not compare(random_dfa(6, seed=0), random_dfa(6, seed=1))
    assert not compare(random_pa(6, seed=0), random_pa(6, seed=1))
    assert random_pa(6, seed=0) == random_pa(6, seed=0)


def test_concentration_makes_rows_sharp_or_flat() -> None:
    sharp, flat = (random_pa(10, seed=0, concentration=c).matrices.max(-1).values.mean() for c in (0.01, 100))
    assert sharp > 0.9
    assert flat < 0.15


@given(dfas())
def test_all_strings_are_read_at_once_as_one_by_one(dfa: DFA) -> None:
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


def test_strings_follow_their_seed_and_not_the_other_lengths() -> None:
    alone, _ = balanced_strings(tomita(3), [30], 5, seed=2)
    among, _ = balanced_strings(tomita(3), [10, 30, 50], 5, seed=2)
    assert alone == among[10:20]
    assert alone != balanced_strings(tomita(3), [30], 5, seed=3)[0]


def test_a_data_set_is_one_like_those_of_the_registry() -> None:
    known = load("tomita3", "train")
    strings = [
        "".join("01"[t - 1] for t in row[1:n]) for row, n in zip(known.inputs.tolist(), known.lengths, strict=True)
    ]
    data = as_dataset(strings, accepts(tomita(3), strings), "01")
    assert torch.equal(data.inputs, known.inputs)
    assert torch.equal(data.lengths, known.lengths)
    assert torch.equal(data.labels, known.labels)
    assert data.vocabulary == known.vocabulary


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="lengths must be"):
        balanced_strings(tomita(1), [], 1, seed=0)
    with pytest.raises(ValueError, match="lengths must be"):
        balanced_strings(tomita(1), [-1], 1, seed=0)
    with pytest.raises(ValueError, match="at least two symbols"):
        mutations(from_regex("a*", "a"), ["a"], seed=0)
    with pytest.raises(ValueError, match="single characters"):
        from_regex("a", ())
    with pytest.raises(ValueError, match="states must be at least 1"):
        random_dfa(0, seed=0)
    with pytest.raises(ValueError, match="single symbol"):
        random_dfa(3, "a", seed=0)
    with pytest.raises(ValueError, match="concentration must be positive"):
        random_pa(2, seed=0, concentration=0)
    with pytest.raises(ValueError, match="start token"):
        as_dataset(["^"], torch.ones(1), "^a")
    with pytest.raises(ValueError, match="not in the alphabet"):
        accepts(tomita(1), ["012"])


@pytest.mark.parametrize("number", [1, 2])
def test_the_definitions_in_the_docs_are_those_of_the_code(number: int) -> None:
    page = (Path(__file__).parents[2] / "docs/automata.md").read_text("utf-8")
    pa = stochastic(number)
    for state in range(pa.num_states):
        laws = (", ".join(f"{p:g}" for p in matrix[state].tolist()) for matrix in pa.matrices)
        assert f"| {state} | {' | '.join(laws)} |" in page
    assert pa.output.tolist() == [float(state == 1) for state in range(pa.num_states)]
    assert float(pa.initial[0]) == 1
