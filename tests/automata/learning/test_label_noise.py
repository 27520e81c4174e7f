from __future__ import annotations

import math
import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from aalpy.learning_algs import run_RPNI
from aalpy.learning_algs.deterministic_passive.rpni_helper_functions import RpniNode
from automata.fa.dfa import DFA

from sttau import load as load_model
from sttau.automata import (
    accepts,
    as_dataset,
    compare,
    extract_dfa,
    from_aalpy,
    learn,
    learn_by_merging,
    learn_with_noise,
    random_dfa,
    tomita,
)
from sttau.automata.learning.label_noise import _Search, judge
from sttau.automata.learning.labeled_tree import dfa_of, labeled_tree, moves_of
from sttau.automata.learning.verdict import consistent_verdict, growth
from sttau.data import SequenceDataset, load
from sttau.inference import predict

SHORT = ["".join(word) for length in range(10) for word in product("01", repeat=length)]


def noisy(dfa: DFA, noise: float, seed: int, strings: list[str] = SHORT, alphabet: str = "01") -> SequenceDataset:
    wrong = torch.rand(len(strings), generator=torch.Generator().manual_seed(seed)) < noise
    return as_dataset(strings, accepts(dfa, strings) ^ wrong, alphabet)


@pytest.mark.parametrize("seed", range(3))
def test_the_tree_has_the_prefixes_and_the_counts_of_the_strings(seed: int) -> None:
    source = random.Random(seed)
    strings = source.choices(SHORT[:100], k=60)  # with copies
    labels = [source.random() < 0.5 for _ in strings]
    tree = labeled_tree(as_dataset(strings, labels, "01"))
    words = [""]
    for parent, symbol in zip(tree.parents[1:].tolist(), tree.symbols[1:].tolist(), strict=True):
        words.append(words[parent] + tree.alphabet[symbol])
    assert words == sorted({s[:end] for s in strings for end in range(len(s) + 1)}, key=lambda s: (len(s), s))
    for word, counts in zip(words, tree.counts.tolist(), strict=True):
        assert counts == [
            sum(s == word and y == label for s, y in zip(strings, labels, strict=True)) for label in (0, 1)
        ]
    for node, word in enumerate(words):
        for symbol, child in zip(tree.alphabet, tree.children[node].tolist(), strict=True):
            assert child == (words.index(word + symbol) if word + symbol in words else -1)


@pytest.mark.parametrize("seed", range(5))
def test_errors_are_those_of_the_strings_one_by_one(seed: int) -> None:
    source = np.random.default_rng(seed)
    data = noisy(tomita(4), 0.2, seed)
    search = _Search(labeled_tree(data), 6, 0)
    moves = source.integers(6, size=(6, 2)).astype(np.int32)
    ends = []
    for string in SHORT:
        state = 0
        for symbol in string:
            state = int(moves[state, int(symbol)])
        ends.append(state)
    totals = [
        [int(((np.array(ends) == state) & (data.labels.numpy() == y)).sum()) for y in (0, 1)] for state in range(6)
    ]
    assert search.totals(moves).tolist() == totals
    assert search.wrong(moves) == sum(map(min, totals))
    small = search.minimal(moves)  # the same labels, minimal
    majority = np.array([row[1] > row[0] for row in totals])
    both = [dfa_of(found, search.totals(found)[:, 1] > search.totals(found)[:, 0], ("0", "1")) for found in (small,)]
    assert compare(both[0], dfa_of(moves, majority, ("0", "1")))
    assert len(small) == len(dfa_of(moves, majority, ("0", "1")).minify().states)


def test_a_descent_never_adds_errors_and_ends_where_no_single_move_removes_any() -> None:
    search = _Search(labeled_tree(noisy(tomita(6), 0.1, 0)), 4, 0)
    moves = np.random.default_rng(1).integers(4, size=(4, 2)).astype(np.int32)
    found = search.descended(moves)
    assert search.wrong(found) <= search.wrong(moves)
    for state, symbol in np.ndindex(found.shape):
        for target in range(len(found)):
            other = found.copy()
            other[state, symbol] = target
            assert search.wrong(other) >= search.wrong(found)


@pytest.mark.parametrize(("states", "seed"), [(4, 1), (6, 2), (8, 4)])
def test_the_language_is_found_though_every_tenth_label_is_wrong(states: int, seed: int) -> None:
    truth = random_dfa(states, "01", seed=seed)
    data = noisy(truth, 0.1, seed)
    fit = learn_with_noise(data, rounds=30)
    assert compare(fit.dfa, truth)
    wrong = int((accepts(truth, SHORT) != data.labels.bool()).sum())
    assert fit.wrong == wrong
    assert fit.noise == pytest.approx((wrong + 1) / (len(SHORT) + 2))
    assert fit.log_odds > math.log(20)
    merged = learn_by_merging(data, largest=40)  # the classic algorithm fits every wrong label
    assert merged is None or not compare(merged, truth)


def test_the_posterior_is_the_integral_over_noise_rates_and_all_automata_of_one_size_sum_up() -> None:
    data = noisy(tomita(1), 0.1, 0, SHORT[:40])
    search = _Search(labeled_tree(data), 2, 0)
    rates = (np.arange(200_000) + 0.5) / 400_000
    integral = np.mean(rates**4 * (1 - rates) ** 36)  # uniform on [0, 1/2]; the closed form neglects p > 1/2
    prior = 2 ** (-4) * 2**-2 * 1 / 6
    assert search.log_posterior(4, 2) == pytest.approx(math.log(integral * prior), abs=1e-4)


def test_odds_of_a_given_automaton_count_its_neighbors() -> None:
    data = as_dataset(["", "0", "1", "00", "11"], [True, False, True, False, True], "01")
    fit = judge(tomita(1), data)  # the moves of the dead state are hardly seen
    assert fit.wrong == 0
    assert fit.log_odds < math.log(20)
    assert fit.rival is not None
    assert not compare(fit.rival, tomita(1))


@pytest.mark.parametrize("seed", range(40))
def test_rpni_is_that_of_aalpy_with_prefixes_in_order_of_length_and_symbols(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AALpy compares prefixes by length alone, so that its result depends on the order of the strings."""
    monkeypatch.setattr(RpniNode, "__lt__", lambda a, b: (len(a.prefix), a.prefix) < (len(b.prefix), b.prefix))
    source = random.Random(seed)
    strings = source.sample(SHORT[:31], source.randint(5, 15))
    labels = accepts(random_dfa(4, "01", seed=seed), strings).tolist()
    ours = learn_by_merging(as_dataset(strings, labels, "01"), "canonical")
    pairs = list(zip(map(tuple, strings), labels, strict=True))
    theirs = run_RPNI(pairs, "dfa", input_completeness="self_loop", print_info=False)
    if set(theirs.get_input_alphabet()) == {"0", "1"}:
        assert ours is not None
        assert compare(from_aalpy(theirs), ours)


def test_learn_recognizes_wrong_labels_and_says_what_it_knows(tmp_path: Path) -> None:
    truth = random_dfa(5, "01", seed=7)
    learned = learn(noisy(truth, 0.1, 3), num_states=10)
    assert learned.reached
    assert learned.verdict.kind == "likely"
    assert learned.verdict
    assert compare(learned, truth)
    assert learned.verdict.noise == pytest.approx(0.1, abs=0.03)
    assert "noise rate of" in str(learned.verdict)
    assert "posterior odds of 10^" in learned.verdict.evidence
    assert learned.verdict.held_out is not None
    assert learned.verdict.held_out[1] == len(SHORT) // 5
    strings = ["".join(random.Random(seed).choices("01", k=500)) for seed in range(20)]
    long = as_dataset(strings, accepts(truth, strings), "01")
    answer = predict(learned.model, long.inputs, long.lengths)
    assert answer.label.tolist() == long.labels.tolist()
    # the network predicts its labels with the estimated probability that they are right, up to its own rounding
    torch.testing.assert_close(answer.confidence, torch.full((20,), 1 - learned.verdict.noise), atol=0.02, rtol=0)
    note = load_model(learned.model.save(tmp_path / "model.safetensors")).notes["learned"]
    assert isinstance(note, dict)
    assert note["verdict"] == "likely"


def test_copies_with_different_labels_are_wrong_labels_too() -> None:
    strings = SHORT[:255] * 3
    learned = learn(noisy(tomita(4), 0.08, 0, strings), num_states=8)
    assert learned.verdict.kind == "likely"
    assert compare(learned, tomita(4))


def test_random_labels_are_no_noise() -> None:
    with pytest.raises(ValueError, match=r"4\d% of all pairs of copies differ: .* use learn_stochastic"):
        learn(load("stochastic1", "train"))


def test_labels_whose_rate_depends_on_the_string_are_no_noise() -> None:
    source = random.Random(0)
    rate = {string: 0.35 if string.endswith("1") else 0.02 for string in SHORT[:63]}
    strings = [string for string in rate for _ in range(30)]
    labels = [(string.count("0") % 2 == 0) != (source.random() < rate[string]) for string in strings]
    with pytest.raises(ValueError, match="labels of equal strings differ at rates that depend on the string"):
        learn(as_dataset(strings, labels, "01"), num_states=3)


def test_an_automaton_that_fails_on_validation_strings_is_not_likely() -> None:
    train = noisy(tomita(4), 0.1, 0, SHORT[:127])
    validation = as_dataset(SHORT[500:900], accepts(tomita(5), SHORT[500:900]), "01")
    learned = learn(train, validation, num_states=6, attempts=1, updates=3)
    assert learned.verdict.kind == "failed"
    assert not learned.reached


def test_strings_that_leave_a_move_open_do_not_determine_the_language(caplog: pytest.LogCaptureFixture) -> None:
    strings = [string for string in SHORT if "1" not in string[:-1]]  # what follows a 1 is never seen
    learned = learn(as_dataset(strings, [not string.endswith("1") for string in strings], "01"), num_states=4)
    assert learned.reached
    assert learned.verdict.kind == "not determined by the data"
    assert "label strings like “1" in learned.verdict.evidence
    assert "not determined by the data" in caplog.text


def test_clean_labels_that_determine_the_language_prove_it() -> None:
    learned = learn(load("tomita4", "train"), load("tomita4", "validation"))
    assert learned.verdict.kind == "proved on the data"
    assert "validation labels" in learned.verdict.evidence
    assert extract_dfa(learned.model).equivalent_to(tomita(4))


def depth_is_never_negative(string: str) -> bool:
    depth = 0
    for symbol in string:
        depth += 1 if symbol == "a" else -1
        if depth < 0:
            return False
    return depth == 0


@pytest.mark.parametrize("name", ["anbn", "dyck"])
def test_languages_that_are_not_regular_are_recognized_by_automata_that_grow(name: str) -> None:
    strings = ["".join(word) for length in range(9) for word in product("ab", repeat=length)]
    inside = {
        "anbn": lambda s: s == "a" * (len(s) // 2) + "b" * (len(s) // 2),
        "dyck": depth_is_never_negative,
    }[name]
    data = as_dataset(strings, [inside(string) for string in strings], "ab")
    dfa = learn_by_merging(data)
    assert dfa is not None
    sizes = {"anbn": (3, 5, 7, 9), "dyck": (3, 4, 5, 6)}[name]
    assert growth(data, dfa) == "automata that fit have " + ", ".join(
        f"{size}{'' if place else ' states'} up to length {length}"
        for place, (size, length) in enumerate(zip(sizes, (2, 4, 6, 8), strict=True))
    )
    verdict = consistent_verdict(dfa, data, None)
    assert verdict.kind == "not determined by the data"
    assert "probably not regular" in verdict.evidence


@pytest.mark.parametrize("number", range(1, 8))
def test_no_tomita_grammar_looks_irregular(number: int) -> None:
    data = load(f"tomita{number}", "train")
    assert growth(data, tomita(number)) == ""
    assert consistent_verdict(tomita(number), data, None).kind == "proved on the data"


def test_moves_of_a_dfa_are_those_it_is_made_of() -> None:
    for number in range(1, 8):
        assert compare(dfa_of(*moves_of(tomita(number), ("0", "1")), ("0", "1")), tomita(number))
