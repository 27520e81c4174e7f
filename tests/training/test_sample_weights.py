"""Weights of training sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_sample_weight
from torch import nn

from sttau import DeepEnsemble, SequenceClassifier, SequenceRegressor
from sttau.models import Predictor
from sttau.training.sample_weights import as_class_weight, as_sample_weight, sequence_weights
from tests.training.small_runs import signs, trained


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    targets = torch.tensor([0, 0, 0, 1, 2, 2])
    weights = sequence_weights("balanced", None, targets, 3)
    torch.testing.assert_close(weights, torch.from_numpy(compute_sample_weight("balanced", targets.numpy())))


def test_a_class_without_sequences_has_no_say() -> None:
    weights = sequence_weights("balanced", None, torch.tensor([0, 0, 2]), 3)
    assert weights is not None
    assert weights.tolist() == pytest.approx([0.75, 0.75, 1.5])


def test_weights_are_multiplied_and_have_mean_1() -> None:
    targets, own = torch.tensor([0, 1, 1]), as_sample_weight(np.array([1.0, 0.0, 3.0], dtype=np.float32))
    weights = sequence_weights(as_class_weight([2, 1]), own, targets, 2)
    assert weights is not None
    assert weights.tolist() == pytest.approx([2 * 3 / 5, 0, 3 * 3 / 5])
    assert sequence_weights(None, None, targets, 2) is None


@pytest.mark.parametrize(
    ("given", "names", "expected"),
    [
        ({"sick": 3}, ("well", "sick"), [1.0, 3.0]),
        ({1: 3}, ("well", "sick"), [1.0, 3.0]),
        ({"1": 3}, (), [1.0, 3.0]),
        ({1: 3}, ("1", "2"), [3.0, 1.0]),  # the class that is called 1
        ({2: 3}, ("1", "2"), [1.0, 3.0]),
        (torch.tensor([1.0, 3.0]), (), [1.0, 3.0]),
    ],
)
def test_classes_are_found_by_name_first(given: Any, names: tuple[str, ...], expected: list[float]) -> None:
    weights = sequence_weights(as_class_weight(given), None, torch.tensor([0, 1]), 2, names)
    assert weights is not None
    assert weights.tolist() == [value / 2 for value in expected]


def test_an_unknown_class_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="names 'ill'; the classes are 'well', 'sick' or 0 … 1"):
        sequence_weights({"well": 1, "ill": 2}, None, torch.tensor([0, 1]), 2, ("well", "sick"))
    with pytest.raises(ValueError, match="names 'well'; the classes are 'well', 'sick' or 0 … 1"):
        sequence_weights({"well": 1, 1: 2}, None, torch.tensor([0, 1]), 2, ("well", "sick"))


def test_balanced_classes_have_the_same_sum_of_weights_and_a_weight_of_2_is_a_repetition() -> None:
    targets, given = torch.tensor([0, 0, 1, 1, 2]), torch.tensor([2.0, 1.0, 1.0, 1.0, 0.5], dtype=torch.float64)
    weights = sequence_weights("balanced", given, targets, 3)
    assert weights is not None
    torch.testing.assert_close(torch.bincount(targets, weights), torch.full((3,), 5 / 3, dtype=torch.float64))
    again = sequence_weights("balanced", torch.tensor([1.0, 1, 1, 1, 1, 0.5]), torch.tensor([0, 0, 0, 1, 1, 2]), 3)
    assert again is not None
    torch.testing.assert_close(again[1:] / again.sum(), (weights / weights.sum() / torch.tensor([2, 1, 1, 1, 1])))


@pytest.mark.parametrize("task", ["classes", "values", "variances", "ensemble"])
def test_a_weight_of_three_counts_as_three_sequences_and_equal_weights_change_nothing(task: str) -> None:
    x, y, lengths = signs(8)
    x, values = x.double(), torch.randn(8, 2, dtype=torch.float64)
    make: dict[str, Callable[[], Predictor]] = {
        "classes": lambda: SequenceClassifier(nn.GRU(2, 4), 2),
        "values": lambda: SequenceRegressor(nn.GRU(2, 4), 2),
        "variances": lambda: SequenceRegressor(nn.GRU(2, 4), 2, variance=True),
        "ensemble": lambda: DeepEnsemble.of(lambda: SequenceClassifier(nn.GRU(2, 4), 2), size=2),
    }
    model, targets = make[task]().double(), values if task in ("values", "variances") else y
    weights = torch.tensor([0, 1, 2, 3, 1, 1, 0, 2])
    repeated = torch.arange(8).repeat_interleave(weights)
    expected = trained(model, x[repeated], targets[repeated], lengths[repeated])
    got = trained(model, x, targets, lengths, sample_weight=weights * 0.3)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        trained(model, x, targets, lengths, sample_weight=[7] * 8),
        trained(model, x, targets, lengths),
        rtol=1e-12,
        atol=1e-12,
    )


def test_a_class_weight_is_a_weight_of_all_its_sequences() -> None:
    x, y, lengths = signs(16)
    model = SequenceClassifier(nn.GRU(2, 4), 2).double()
    weights = torch.tensor([1.0, 4.0], dtype=torch.float64)
    expected = trained(model, x.double(), y, lengths, sample_weight=weights[y])
    for given in (weights, [1, 4], {1: 4}, {"1": 4.0}):
        assert torch.equal(trained(model, x.double(), y, lengths, class_weight=given)[0], expected[0])
