from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sttau.automata.generative import GenerativeAutomaton, NGram, learn_generative
from sttau.automata.generative.expectation import _Data, _iterate, _normalized, expected_counts
from tests.automata.generative.small_automata import paths, random_automaton


@pytest.mark.parametrize("seed", range(4))
def test_expected_counts_are_those_of_the_paths_weighted_by_their_posterior(seed: int) -> None:
    automaton = random_automaton(seed)
    words = ["abba", "aab", "b", "b", ""]
    data = _Data([tuple(word) for word in words], ("a", "b"))
    initial, moves, ends, value = expected_counts(data.ids, data.lengths, data.weights, automaton)
    by_hand = np.zeros(3), np.zeros((2, 3, 3)), np.zeros(3)
    for word in words:
        total = sum(p for p, _ in paths(automaton, word))
        for p, path in paths(automaton, word):
            by_hand[0][path[0]] += p / total
            by_hand[2][path[-1]] += p / total
            for step, symbol in enumerate(word):
                by_hand[1]["ab".index(symbol), path[step], path[step + 1]] += p / total
    for ours, theirs in zip((initial, moves, ends), by_hand, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    assert value == pytest.approx(float(automaton.log_probability(words).sum()))


@pytest.mark.parametrize("kind", ["automaton", "hmm"])
def test_no_iteration_lowers_the_likelihood(kind: str) -> None:
    data = _Data(random_automaton(0).sample(200, seed=1), ("a", "b"))
    start = random_automaton(5)
    if kind == "hmm":
        start = _iterate(data, start, "hmm", 1, 0.0)[0]
    values = [_iterate(data, start, kind, steps, 0.0)[1] for steps in range(1, 12)]  # type: ignore[arg-type]
    assert all(later >= before - 1e-2 for before, later in pairwise(values))  # up to pseudocounts
    assert values[-1] > values[0]


def test_an_hmm_is_learned_to_its_entropy_and_its_number_of_states_by_held_out_strings() -> None:
    transition, emission = np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([[0.95, 0.05], [0.1, 0.9]])
    truth = GenerativeAutomaton.from_hmm(np.array([1.0, 0.0]), transition, emission, np.full(2, 0.1), "ab")
    learned = learn_generative(truth.sample(1500, seed=0), kind="hmm", attempts=2, largest=3, iterations=80)
    test = truth.sample(2000, seed=1)
    assert max(learned.held_out, key=learned.held_out.get) == learned.automaton.num_states == 2  # type: ignore[arg-type]
    assert learned.automaton.log_probability(test).mean() > 1.005 * truth.log_probability(test).mean()
    assert learned.automaton.perplexity(test) < NGram(truth.sample(1500, seed=0), 2).perplexity(test)


def test_an_iteration_for_hmms_is_that_of_hmmlearn() -> None:
    hmm = pytest.importorskip("hmmlearn.hmm")
    source = np.random.default_rng(0)
    k, symbols = 3, 2
    emission, ends = source.dirichlet(np.ones(symbols), size=k), source.uniform(0.2, 0.5, k)
    start = GenerativeAutomaton.from_hmm(
        source.dirichlet(np.ones(k)), source.dirichlet(np.ones(k), size=k), emission, ends, "ab"
    )
    words = random_automaton(1).sample(2000, seed=3)
    data = _Data(words, ("a", "b"))
    initial, moves, stops, value = expected_counts(data.ids, data.lengths, data.weights, start)
    # the end of a string is a symbol of its own there, which a state emits instead of moving on
    theirs = hmm.CategoricalHMM(k, n_iter=1, init_params="", params="ste", n_features=symbols + 1)
    theirs.startprob_ = start.initial
    theirs.transmat_ = start.moves.sum(0) / start.moves.sum((0, 2))[:, None]
    theirs.emissionprob_ = np.concatenate([start.moves.sum(2).T, start.ends[:, None]], axis=1)
    sequences = [[*("ab".index(symbol) for symbol in word), symbols] for word in words]
    together = np.concatenate([np.array(sequence) for sequence in sequences])[:, None]
    lengths = [len(sequence) for sequence in sequences]
    assert theirs.score(together, lengths) == pytest.approx(value, rel=1e-9)
    theirs.fit(together, lengths)
    ours = _normalized(initial, moves, stops, "hmm", ("a", "b"))
    # ours adds a count of 0.001 to the counts of 2,000 strings
    np.testing.assert_allclose(ours.ends, theirs.emissionprob_[:, -1], atol=1e-5)
    np.testing.assert_allclose(ours.moves.sum(2).T, theirs.emissionprob_[:, :-1], atol=1e-5)
    np.testing.assert_allclose(ours.moves.sum(0) / ours.moves.sum((0, 2))[:, None], theirs.transmat_, atol=1e-5)
    np.testing.assert_allclose(ours.initial, theirs.startprob_, atol=1e-5)
