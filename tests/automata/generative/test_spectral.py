from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sttau.automata.generative import GenerativeAutomaton, learn_spectrally
from tests.automata.generative.small_automata import WORDS, random_automaton


def _exact_copies(automaton: GenerativeAutomaton, longest: int, total: float) -> list[str]:
    """Every string as often as its probability says."""
    words = ["".join(word) for length in range(longest + 1) for word in product("ab", repeat=length)]
    copies = np.rint(np.exp(automaton.log_probability(words)) * total).astype(int)
    return [word for word, count in zip(words, copies.tolist(), strict=True) for _ in range(count)]


def test_spectral_learning_is_exact_when_frequencies_are() -> None:
    truth = GenerativeAutomaton.from_hmm(
        np.array([0.7, 0.3]),
        np.array([[0.2, 0.8], [0.6, 0.4]]),
        np.array([[0.9, 0.1], [0.3, 0.7]]),
        np.array([0.5, 0.7]),
        "ab",
    )
    model = learn_spectrally(_exact_copies(truth, 11, 1e5), rank=2, basis=7)
    # strings rarer than half a copy are left out, 6e-4 of the whole
    np.testing.assert_allclose(model.values(WORDS), np.exp(truth.log_probability(WORDS)), atol=1e-3)
    # the sum over all strings, against the strings one by one; the rest is below 1e-4
    words = ["".join(word) for length in range(16) for word in product("ab", repeat=length)]
    assert model.total() == pytest.approx(float(model.values(words).sum()), abs=1e-3)
    assert model.total() == pytest.approx(1, abs=0.01)
    assert model.num_states == 2
    # divided by the sum of all continuations, which is 1 up to the strings that are left out
    np.testing.assert_allclose(np.exp(model.log_probability(words)), np.exp(truth.log_probability(words)), atol=1e-3)


@pytest.mark.parametrize(("seed", "rank"), [(0, 3), (1, 2), (2, 4)])
def test_the_probabilities_of_a_spectral_model_sum_to_one_though_its_values_do_not(seed: int, rank: int) -> None:
    model = learn_spectrally(random_automaton(seed).sample(60, seed=seed), rank=rank, basis=10, alphabet="ab")
    ended = [np.exp(model.log_probability(["".join(w) for w in product("ab", repeat=n)])).sum() for n in range(15)]
    assert sum(ended) == pytest.approx(1, abs=0.02)  # a string ends with a probability of at least 0.2 per step
    assert abs(sum(model.values(WORDS)) - 1) > 1e-6


def test_a_spectral_model_may_have_strings_without_probability() -> None:
    model = learn_spectrally(random_automaton(0).sample(50, seed=0), rank=3, basis=10)
    values = model.values(WORDS)
    assert (values < 0).any()  # weights are real numbers
    assert (np.exp(model.log_probability(WORDS)) >= 0).all()
    with pytest.raises(ValueError, match="rank must be at most 3, the size of the basis, got 4"):
        learn_spectrally(["a", "b"], rank=4)
    with pytest.raises(ValueError, match="strings are empty"):
        learn_spectrally([], rank=1)
