from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from sttau import DeepEnsemble, SequenceClassifier, SequenceRegressor
from sttau.data import load
from sttau.inference.ranges import feature_ranges, record_ranges, warn_outside_ranges


def test_ranges_are_those_of_valid_steps_and_grow_with_further_training() -> None:
    model = SequenceRegressor(nn.LSTM(2, 3))
    x = torch.tensor([[[1.0, -1.0], [2.0, -2.0], [99.0, 99.0]], [[0.0, math.nan], [99.0, 99.0], [99.0, 99.0]]])
    record_ranges(model, x, torch.tensor([2, 1]))
    assert feature_ranges(model) == ((0.0, 2.0), (-2.0, -1.0))
    record_ranges(model, torch.tensor([[[5.0, -1.5]]]))
    assert feature_ranges(model) == ((0.0, 5.0), (-2.0, -1.0))


def test_names_of_the_data_leave_the_ranges_as_they_are() -> None:
    model = DeepEnsemble([SequenceRegressor(nn.LSTM(8, 3)) for _ in range(2)])
    record_ranges(model, torch.ones(1, 2, 8))
    names = tuple("abcdefgh")
    model.set_metadata(replace(load("digits", "train"), class_names=(), feature_names=names))
    assert feature_ranges(model) == ((1.0, 1.0),) * 8
    assert model.feature_names == names


def test_classifiers_keep_none_and_a_strange_note_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    classifier = SequenceClassifier(nn.LSTM(1, 2), 2)
    record_ranges(classifier, torch.ones(1, 2, 1))
    assert classifier.notes == {}
    model = SequenceRegressor(nn.LSTM(1, 2))
    for note in (7, [[1.0]], [["a", "b"]], [[0.0, 1.0], [0.0, 1.0]]):
        model.set_note("feature_ranges", note)
        assert feature_ranges(model) is None
        warn_outside_ranges(model, torch.ones(1, 2, 1))
    assert not caplog.records
