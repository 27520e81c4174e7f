from __future__ import annotations

import math
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from aalpy.automata import MarkovChain, McState

from sttau.automata import compare, from_aalpy, from_regex
from sttau.automata.generative import (
    GenerativeAutomaton,
    NGram,
    from_markov_chain,
    learn_by_alergia,
    learn_generative,
    learn_spectrally,
    pautomac_score,
    read_pautomac,
    read_pautomac_solution,
)
from sttau.automata.generative.expectation import _Data, _iterate, _normalized, expected_counts
from sttau.errors import DataError

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


@pytest.mark.parametrize("seed", range(4))
def test_a_probability_is_the_sum_over_all_paths(seed: int) -> None:
    automaton = random_automaton(seed)
    expected = [sum(p for p, _ in paths(automaton, word)) for word in WORDS]
    np.testing.assert_allclose(np.exp(automaton.log_probability(WORDS)), expected, rtol=1e-12)
    shuffled = WORDS[::-1]  # the order of strings does not matter
    np.testing.assert_allclose(automaton.log_probability(shuffled), automaton.log_probability(WORDS)[::-1])


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


def test_an_hmm_is_learned_to_its_entropy_and_its_number_of_states_by_held_out_strings() -> None:
    transition, emission = np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([[0.95, 0.05], [0.1, 0.9]])
    truth = GenerativeAutomaton.from_hmm(np.array([1.0, 0.0]), transition, emission, np.full(2, 0.1), "ab")
    learned = learn_generative(truth.sample(1500, seed=0), kind="hmm", attempts=2, largest=3, iterations=80)
    test = truth.sample(2000, seed=1)
    assert max(learned.held_out, key=learned.held_out.get) == learned.automaton.num_states == 2  # type: ignore[arg-type]
    assert learned.automaton.log_probability(test).mean() > 1.005 * truth.log_probability(test).mean()
    assert learned.automaton.perplexity(test) < NGram(truth.sample(1500, seed=0), 2).perplexity(test)


def test_a_bigram_is_the_limit_of_counts_and_sums_to_one() -> None:
    model = NGram(["ab"] * 1000 + ["b"] * 1000, 2)
    assert model.log_probability(["ab"])[0] == pytest.approx(math.log(0.5), abs=0.01)
    for context in (("a",), (None,), ("b",)):
        assert sum(model.probability(context, symbol) for symbol in ("a", "b", None)) == pytest.approx(1)


def test_alergia_learns_a_pdfa_and_its_support() -> None:
    strings = ["ab" * n for n in range(6) for _ in range(2 ** (8 - n))]
    pdfa = learn_by_alergia(strings)
    assert pdfa.is_deterministic()
    assert compare(pdfa.support(), from_regex("(ab)*", "ab"))
    assert not random_automaton(0).is_deterministic()


def test_markov_chains_of_aalpy_are_generative() -> None:
    start, a, end = McState("q0", "start"), McState("q1", "a"), McState("q2", "end")
    start.transitions = [(a, 0.75), (end, 0.25)]
    a.transitions = [(a, 0.5), (end, 0.5)]
    chain = MarkovChain(start, [start, a, end])
    found = from_markov_chain(chain, end="end")
    np.testing.assert_allclose(np.exp(found.log_probability(["", "a", "aa"])), [0.25, 0.375, 0.1875])
    with pytest.raises(TypeError, match="from_markov_chain reads it"):
        from_aalpy(chain)
    with pytest.raises(TypeError, match="must be an AALpy MarkovChain"):
        from_markov_chain("chain")


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


def test_files_of_pautomac_are_read_and_scored(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("3 2\n2 0 1\n0\n1 1\n")
    strings, alphabet = read_pautomac(tmp_path / "train")
    assert (strings, alphabet) == ([("0", "1"), (), ("1",)], ("0", "1"))
    (tmp_path / "solution").write_text("3\n0.2\n0.1\n0.1\n")
    truth = read_pautomac_solution(tmp_path / "solution")
    assert pautomac_score(truth, np.log(truth) - 3) == pytest.approx(2**1.5)  # q is normalized over the test strings
    assert pautomac_score(truth, np.log([0.3, 0.3, 0.4])) > 2**1.5
    for text, problem in (
        ("", "line 1"),
        ("2 2\n0\n", "announces 2 strings"),
        ("1 2\n1 2\n", "line 2"),
        ("1 2\nx\n", "integers"),
    ):
        (tmp_path / "train").write_text(text)
        with pytest.raises(DataError, match=problem):
            read_pautomac(tmp_path / "train")
    for text in ("2\n0.1\n", "x\n", "1\n0\n"):
        (tmp_path / "solution").write_text(text)
        with pytest.raises(DataError):
            read_pautomac_solution(tmp_path / "solution")


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


def test_a_pautomac_file_that_announces_too_many_symbols_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "damaged"
    file.write_text("1 9999999999999\n1 0\n")
    with pytest.raises(DataError, match=r"line 1: the number of symbols must be between 1 and 100,000"):
        read_pautomac(file)
