"""Weights and repetitions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_sample_weight

from sttau.data import SequenceDataset, from_arrays
from sttau.sklearn.weights import hold_out, merge_equal, repeat_by_weight, weigh_classes


def numbered(values: list[float]) -> SequenceDataset:
    return from_arrays(np.array(values)[:, None], np.array(values), task="regression")


@given(st.lists(st.integers(0, 6), min_size=2, max_size=12).filter(lambda weights: any(weights)), st.randoms())
def test_weights_and_repetitions_give_the_same_series_in_the_same_order(weights: list[int], random: object) -> None:
    values = [float(value) for value in range(len(weights))]
    repeated = [value for value, weight in zip(values, weights, strict=True) for _ in range(weight)]
    random.shuffle(repeated)  # type: ignore[attr-defined]
    one = repeat_by_weight(*merge_equal(numbered(values), np.array(weights, dtype=float)))
    other = repeat_by_weight(*merge_equal(numbered(repeated), np.ones(len(repeated))))
    assert one.labels.tolist() == other.labels.tolist()


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=20))
def test_repetitions_are_in_proportion_to_weights(weights: list[float]) -> None:
    values, given_weights = [float(value) for value in range(len(weights))], np.array(weights)
    rows = repeat_by_weight(numbered(values), given_weights).labels.tolist()
    assert len(rows) <= 10 * len(weights) + 1
    counts = np.array([Counter(rows)[value] for value in values])
    scale = len(rows) / given_weights.sum()
    np.testing.assert_allclose(counts, given_weights * scale, atol=1.6)  # of cumulated sums, each end is rounded


def test_a_series_is_either_trained_on_or_held_out_however_often_it_occurs() -> None:
    data, weights = merge_equal(numbered([float(value) for value in range(10)]), np.arange(1.0, 11.0))
    train, own, held, calibration = hold_out(data, weights, 0.3, seed=0)
    assert held is not None
    assert calibration is not None
    assert held.labels.tolist() == calibration.labels.tolist()  # too few for separate ones
    assert not set(train.labels.tolist()) & set(held.labels.tolist())
    assert len(set(held.labels.tolist())) == 3
    assert own.tolist() == [label + 1 for label in train.labels.tolist()]


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 2.0}, None])
def test_weights_of_classes_are_those_of_scikit_learn(class_weight: object) -> None:
    y = np.array(["a", "b", "b", "b"])
    classes, labels = np.unique(y, return_inverse=True)
    own = weigh_classes(class_weight, classes, labels, np.ones(4))
    np.testing.assert_allclose(own, compute_sample_weight(class_weight, y))
