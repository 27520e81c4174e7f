from __future__ import annotations

import math

import numpy as np
import pytest

from sttau.automata.generative import GenerativeAutomaton, learn_by_alergia, learn_generative
from tests.automata.generative.small_automata import WORDS, paths, random_automaton


@pytest.mark.parametrize("seed", range(4))
def test_a_probability_is_the_sum_over_all_paths(seed: int) -> None:
    automaton = random_automaton(seed)
    expected = [sum(p for p, _ in paths(automaton, word)) for word in WORDS]
    np.testing.assert_allclose(np.exp(automaton.log_probability(WORDS)), expected, rtol=1e-12)
    shuffled = WORDS[::-1]  # the order of strings does not matter
    np.testing.assert_allclose(automaton.log_probability(shuffled), automaton.log_probability(WORDS)[::-1])


def test_samples_have_the_probabilities_of_the_automaton() -> None:
    automaton = random_automaton(2)
    drawn = automaton.sample(20_000, seed=0)
    for word, p in zip(WORDS[:7], np.exp(automaton.log_probability(WORDS[:7])), strict=True):
        share = sum("".join(string) == word for string in drawn) / len(drawn)
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / len(drawn)) + 1e-9
    assert drawn == automaton.sample(20_000, seed=0)
    endless = GenerativeAutomaton(np.ones(1), np.ones((1, 1, 1)), np.zeros(1), ("a",))
    with pytest.raises(ValueError, match="more than 50 symbols"):
        endless.sample(2, seed=0, longest=50)


def test_next_symbols_are_ratios_of_probabilities_of_prefixes() -> None:
    automaton = random_automaton(3)
    after = automaton.next_symbol("ab")
    assert sum(after.values()) == pytest.approx(1)
    chance = after["a"] * automaton.next_symbol("aba")[None]
    other = after[None]
    ratio = np.exp(np.subtract(*automaton.log_probability(["aba", "ab"])))
    assert chance / other == pytest.approx(float(ratio))


def test_wrong_values_are_refused() -> None:
    with pytest.raises(ValueError, match="must sum to 1"):
        GenerativeAutomaton(np.ones(1), np.full((1, 1, 1), 0.5), np.full(1, 0.4), ("a",))
    with pytest.raises(ValueError, match="moves must be probabilities of shape"):
        GenerativeAutomaton(np.ones(1), np.ones((1, 1)), np.zeros(1), ("a",))
    with pytest.raises(ValueError, match="at least one string"):
        learn_generative([])
    with pytest.raises(ValueError, match="pass the alphabet"):
        learn_generative([""])
    with pytest.raises(ValueError, match="kind must be"):
        learn_generative(["a"], kind="pdfa")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has probability 0"):
        learn_by_alergia(["ab"] * 9).next_symbol("aa")
    with pytest.raises(TypeError, match="write \\['ab'\\]"):
        learn_by_alergia(["ab"] * 9).log_probability("ab")
