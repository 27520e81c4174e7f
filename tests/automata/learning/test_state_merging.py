from __future__ import annotations

import random

import pytest
import torch
from aalpy.learning_algs import run_RPNI

from sttau.automata import balanced_strings, compare, learn_by_merging, random_dfa
from sttau.automata.learning.state_merging import Order
from sttau.data.strings import as_dataset
from sttau.languages import accepts
from tests.automata.learning.strings import ALL, hash_of, labeled

ORDERS: tuple[Order, ...] = ("evidence", "canonical")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(4))
def test_state_merging_is_consistent_with_any_labels(order: Order, seed: int) -> None:
    source = random.Random(seed)
    strings = source.sample(ALL, 60)
    data = labeled(strings, lambda string: hash_of(f"{seed} {string}") % 2 == 0)  # no structure at all
    dfa = learn_by_merging(data, order)
    assert dfa is not None
    assert torch.equal(accepts(dfa, strings), data.labels.bool())
    assert learn_by_merging(data, order, largest=len(dfa.states) - 1) is None


@pytest.mark.parametrize(("states", "alphabet"), [(5, "abc"), (9, "ab"), (12, "ab")])
def test_merging_finds_a_language_that_the_strings_determine_as_rpni_of_aalpy_does(states: int, alphabet: str) -> None:
    truth = random_dfa(states, alphabet, seed=1001)
    strings, labels = balanced_strings(truth, range(17), 64, seed=0)
    data = as_dataset(strings, labels, alphabet)
    for order in ORDERS:
        dfa = learn_by_merging(data, order)
        assert dfa is not None
        assert compare(dfa, truth)
    theirs = run_RPNI(list(zip(map(tuple, strings), labels.bool().tolist(), strict=True)), "dfa", print_info=False)
    assert theirs.size == states


def test_contradictory_labels_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="contradictory labels"):
        learn_by_merging(as_dataset(["a", "a"], [True, False], "a"))
