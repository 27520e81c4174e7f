from __future__ import annotations

import pytest
import torch
from torch import nn

from reproduction.tests.classification.small_networks import generated_reviews, reviews
from sttau import SequenceClassifier, STTauLSTM, predict
from sttau_reproduction.classification.splits import load_splits, predict_probabilities


def test_a_part_is_a_choice_from_the_whole_and_is_loaded_once() -> None:
    whole, part = load_splits("digits", {}, "cpu"), load_splits("digits", {"test": 40, "time": 5}, "cpu")
    assert len(part.train) == len(whole.train)
    assert part.test.inputs.shape == (40, 5, 8)
    assert len(set(part.test.labels.tolist())) > 5  # not the first ones, which may be all of one class
    rows = {tuple(row.flatten().tolist()) for row in whole.test.inputs[:, :5]}
    assert all(tuple(row.flatten().tolist()) in rows for row in part.test.inputs)
    assert load_splits("digits", {"time": 5, "test": 40}, "cpu") is part


def test_a_part_that_nothing_would_take_is_refused() -> None:
    with pytest.raises(ValueError, match=r"part has train, .*folds, fold, each with a number; got trian"):
        load_splits("digits", {"trian": 50}, "cpu")


def test_ood_reviews_come_with_imdb() -> None:
    with generated_reviews():
        found = load_splits("imdb", {"ood": 7}, "cpu")
        assert {out: len(data) for out, data in found.ood.items()} == {"customer": 7, "movie": 7}


def test_probabilities_are_those_of_single_samples() -> None:
    data = reviews("imdb", "test")
    model = SequenceClassifier(STTauLSTM(5, 6, num_states=3), 2, nn.Embedding(12, 5))
    expected = predict(model, data.inputs, data.lengths, samples=3, seed=4, keep_samples=True).samples
    torch.testing.assert_close(predict_probabilities(model, data, samples=3, seed=4), expected)
