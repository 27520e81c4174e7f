from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sttau.metrics import (
    brier_score,
    calibration_error,
    classwise_calibration_error,
    decompose_brier,
    negative_log_likelihood,
    prediction_error,
    reliability_curve,
)
from sttau.metrics.calibration_error import Binning
from tests.metrics.data import forecasts


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


def _mass_oracle(probabilities: torch.Tensor, labels: torch.Tensor, bins: int) -> tuple[float, float]:
    """Adaptive ECE and MCE: cut the sorted confidences, then keep equal ones together, one prediction at a time."""
    pairs = sorted(
        (max(row), float(row.index(max(row)) == y))
        for row, y in zip(probabilities.tolist(), labels.tolist(), strict=True)
    )
    tops = [pairs[math.ceil(Fraction(i * len(pairs), bins)) - 1][0] for i in range(1, bins)] + [1.0]
    groups: list[list[tuple[float, float]]] = [[] for _ in range(bins)]
    for pair in pairs:
        groups[next(n for n, top in enumerate(tops) if pair[0] <= top)].append(pair)
    gaps = [(abs(sum(c - right for c, right in g)) / len(g), len(g)) for g in groups if g]
    return sum(gap * size for gap, size in gaps) / len(pairs), max(gap for gap, _ in gaps)


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 20), st.integers(1, 60), st.booleans())
def test_adaptive_ece_equals_the_definition_with_and_without_ties(
    seed: int, classes: int, bins: int, size: int, tied: bool
) -> None:
    p, y = forecasts(seed, classes, size, tied)
    ece, mce = _mass_oracle(p, y, bins)
    assert calibration_error(p, y, bins, binning="mass") == pytest.approx(ece, abs=1e-12)
    assert calibration_error(p, y, bins, norm="maximum", binning="mass") == pytest.approx(mce, abs=1e-12)


@pytest.mark.parametrize("size", [1, 7, 10, 23, 100])
def test_bins_of_equal_mass_differ_by_at_most_one_prediction_where_none_tie(size: int) -> None:
    p, y = forecasts(0, 4, size, tied=False)
    count = reliability_curve(p, y, binning="mass").count
    assert count.sum() == size
    assert count.max() - count.min() <= 1


def test_equal_confidences_share_a_bin_of_equal_mass() -> None:
    p = torch.tensor([[0.7, 0.3]] * 9 + [[0.9, 0.1]], dtype=torch.float64)
    curve = reliability_curve(p, [0] * 10, bins=5, binning="mass")
    assert curve.count[curve.count > 0].tolist() == [9, 1]
    assert curve.edges.tolist() == [0, 0.7, 0.7, 0.7, 0.7, 1]


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from(["width", "mass"]))
def test_no_metric_depends_on_the_order_of_predictions(seed: int, tied: bool, binning: Binning) -> None:
    p, y = forecasts(seed, 3, 40, tied)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(seed))
    metrics: list[Callable[..., float]] = [
        partial(calibration_error, binning=binning),
        partial(calibration_error, norm="maximum", binning=binning),
        partial(classwise_calibration_error, binning=binning),
        brier_score,
        lambda p, y: decompose_brier(p, y).reliability,
    ]
    for metric in metrics:
        assert metric(p[order], y[order]) == pytest.approx(metric(p, y), abs=1e-12)


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 15), st.integers(1, 40), st.booleans())
def test_classwise_ece_is_the_mean_over_classes_of_the_formula(
    seed: int, classes: int, bins: int, size: int, tied: bool
) -> None:
    p, y = forecasts(seed, classes, size, tied)
    total = 0.0
    for k in range(classes):
        groups: dict[int, list[tuple[float, float]]] = {}
        for value, label in zip(p[:, k].tolist(), y.tolist(), strict=True):
            number = next(n for n in range(bins) if value <= (n + 1) / bins or n == bins - 1)
            groups.setdefault(number, []).append((value, float(label == k)))
        total += sum(abs(sum(v - hit for v, hit in g)) for g in groups.values()) / size
    assert classwise_calibration_error(p, y, bins) == pytest.approx(total / classes, abs=1e-12)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_probabilities_of_exactly_zero_and_one_are_counted(binning: Binning) -> None:
    p, y = torch.eye(2).repeat(5, 1), torch.tensor([0, 1] * 4 + [1, 1])  # one of ten is wrong, and sure
    assert calibration_error(p, y, binning=binning) == pytest.approx(0.1)
    assert classwise_calibration_error(p, y, binning=binning) == pytest.approx(0.1)
    assert brier_score(p, y) == pytest.approx(0.2)
    assert reliability_curve(p, y, binning=binning).count.sum() == 10
    assert reliability_curve(p, y).count.tolist() == [0] * 9 + [10]


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_one_prediction_is_enough(binning: Binning) -> None:
    assert calibration_error([[0.25, 0.75]], [1], binning=binning) == pytest.approx(0.25)
    assert classwise_calibration_error([[0.25, 0.75]], [1], binning=binning) == pytest.approx(0.25)
    assert decompose_brier([[0.25, 0.75]], [1]).brier == pytest.approx(brier_score([[0.25, 0.75]], [1])) == 0.125


def test_labels_of_one_class_only_are_fine_and_a_single_column_is_not() -> None:
    p, y = torch.tensor([[0.75, 0.25], [0.5, 0.5]]), [0, 0]
    assert decompose_brier(p, y).uncertainty == 0
    assert decompose_brier(p, y).resolution == 0
    assert classwise_calibration_error(p, y) == pytest.approx(0.375)
    for metric in (
        calibration_error,
        classwise_calibration_error,
        brier_score,
        negative_log_likelihood,
        decompose_brier,
    ):
        with pytest.raises(ValueError, match=r"at least 2 classes.*stack"):
            metric(torch.ones(3, 1), [0, 0, 0])
        with pytest.raises(ValueError, match="labels must be in 0 … 1"):
            metric(p, [0, 2])
        with pytest.raises(ValueError, match="probabilities must lie in"):
            metric([[math.nan, 0.5]], [0])
        with pytest.raises(ValueError, match="not empty"):
            metric(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))


def test_unknown_binning_is_refused() -> None:
    with pytest.raises(ValueError, match="binning must be"):
        calibration_error([[0.5, 0.5]], [0], binning="size")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bins must be at least 1"):
        classwise_calibration_error([[0.5, 0.5]], [0], bins=0)
    with pytest.raises(ValueError, match="bins must be at least 1"):
        decompose_brier([[0.5, 0.5]], [0], bins=0)
