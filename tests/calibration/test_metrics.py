from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sttau.calibration import calibration_error, negative_log_likelihood, prediction_error, reliability_curve


def _oracle(probabilities: torch.Tensor, labels: torch.Tensor, bins: int) -> tuple[float, float]:
    """ECE and MCE by the paper's formulas, one prediction at a time."""
    groups: list[list[tuple[float, float]]] = [[] for _ in range(bins)]
    for row, label in zip(probabilities.tolist(), labels.tolist(), strict=True):
        confidence = max(row)
        number = next(n for n in range(bins) if confidence <= (n + 1) / bins or n == bins - 1)
        groups[number].append((confidence, float(row.index(confidence) == label)))
    gaps = [(abs(sum(right for _, right in g) / len(g) - sum(c for c, _ in g) / len(g)), len(g)) for g in groups if g]
    total = sum(size for _, size in gaps)
    return sum(gap * size for gap, size in gaps) / total, max(gap for gap, _ in gaps)


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 20), st.integers(1, 60))
def test_ece_and_mce_equal_the_formulas_taken_one_by_one(seed: int, classes: int, bins: int, size: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    p = (3 * torch.randn(size, classes, generator=generator, dtype=torch.float64)).softmax(-1)
    y = torch.randint(classes, (size,), generator=generator)
    ece, mce = _oracle(p, y, bins)
    assert calibration_error(p, y, bins) == pytest.approx(ece, abs=1e-12)
    assert calibration_error(p, y, bins, norm="maximum") == pytest.approx(mce, abs=1e-12)
    assert ece <= mce + 1e-12


def test_an_upper_edge_belongs_to_its_bin_and_confidence_one_to_the_last() -> None:
    p = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.6, 0.4], [0.600001, 0.399999]], dtype=torch.float64)
    assert reliability_curve(p, [0, 0, 0, 0]).count.tolist() == [0, 0, 0, 0, 1, 1, 1, 0, 0, 1]


def test_edges_hold_in_float32_too() -> None:
    tenths = torch.arange(5, 11) / 10
    p = torch.stack([tenths, 1 - tenths], -1)
    assert reliability_curve(p, [0] * 6).count.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]


def test_negative_log_likelihood_is_the_mean_over_true_classes() -> None:
    assert negative_log_likelihood([[0.25, 0.75], [0.5, 0.5]], [0, 1]) == pytest.approx(math.log(8) / 2)
    assert negative_log_likelihood([[0.0, 1.0]], [0]) == math.inf


def test_perfect_predictions_have_no_error_and_sure_mistakes_the_largest() -> None:
    sure = torch.eye(3)
    assert calibration_error(sure, [0, 1, 2]) == 0
    assert calibration_error(sure, [1, 2, 0]) == 1
    assert calibration_error(sure, [1, 2, 0], norm="maximum") == 1
    assert prediction_error(sure, [0, 1, 0]) == pytest.approx(1 / 3)


def test_a_calibrated_forecaster_has_small_error_and_an_overconfident_one_has_not() -> None:
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(200_000, generator=generator, dtype=torch.float64)
    y = (torch.rand(200_000, generator=generator, dtype=torch.float64) < p).long()
    honest = torch.stack([1 - p, p], -1)
    sharp = honest**3 / (honest**3).sum(-1, keepdim=True)
    assert calibration_error(honest, y) < 0.005
    assert calibration_error(sharp, y) > 0.1


def test_empty_bins_are_nan_in_the_curve_and_leave_the_error_finite() -> None:
    curve = reliability_curve([[0.95, 0.05]], [0])
    assert curve.count.sum() == 1
    assert math.isnan(curve.accuracy[0])
    assert calibration_error([[0.95, 0.05]], [0]) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        ([[2.0, -1.0]], [0], "probabilities must lie in"),
        ([[0.5, 0.4]], [0], "sum to 1"),
        ([0.5, 0.5], [0], "probabilities must be"),
        (torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), "not empty"),
        ([[0.5, 0.5]], [2], "labels must be in 0 … 1"),
        ([[0.5, 0.5]], [0, 1], "labels must have shape"),
        ([[float("nan"), 0.5]], [0], "probabilities must lie in"),
    ],
)
def test_bad_input_is_refused_by_name(probabilities: object, labels: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        calibration_error(probabilities, labels)


def test_unknown_norm_and_bins_are_refused() -> None:
    with pytest.raises(ValueError, match="norm must be"):
        calibration_error([[0.5, 0.5]], [0], norm="mean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bins must be at least 1"):
        calibration_error([[0.5, 0.5]], [0], bins=0)
