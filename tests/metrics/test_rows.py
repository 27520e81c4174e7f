"""Weighted rows give the values, intervals and p-values of the functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from sttau import metrics
from sttau.metrics import bootstrap_interval, randomization_test
from sttau.metrics.registry import COLUMNS
from sttau.metrics.rows import Rows, evaluate_rows, metric_rows
from sttau.metrics.statistics import metric_intervals, metric_p_values

N, M = 60, 25


def predictions(seed: int, tied: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(N + M, 3, generator=generator)
    labels = torch.randint(3, (N,), generator=torch.Generator().manual_seed(99))
    p = logits.softmax(-1).double()
    if tied:
        p = torch.nn.functional.one_hot(logits.argmax(1), 3).double() * 0.7 + 0.1
    return p[:N], labels, p[N:]


def _rows(p: Tensor, labels: Tensor, ood: Tensor | None = None) -> Rows:
    rows = metric_rows("classification", p, labels)
    return rows if ood is None else rows | metric_rows("detection", 1 - p.amax(1), 1 - ood.amax(1))


def aurc(p: Tensor, labels: Tensor) -> float:
    return metrics.area_under_risk_coverage(1 - p.amax(1), (p.argmax(1) != labels).double())


METRICS: dict[str, Callable[[Tensor, Tensor], float]] = {
    "pe": metrics.prediction_error,
    "nll": metrics.negative_log_likelihood,
    "brier": metrics.brier_score,
    "ece": metrics.calibration_error,
    "mce": lambda p, y: metrics.calibration_error(p, y, norm="maximum"),
    "aurc": aurc,
}
PERCENT = ("pe", "ece", "mce", "aurc")
NAME = pytest.mark.parametrize("name", METRICS)
TIED = pytest.mark.parametrize("tied", [False, True], ids=["apart", "tied"])


@TIED
def test_values_are_those_of_the_functions(tied: bool) -> None:
    p, labels, ood = predictions(1, tied)
    found = evaluate_rows(_rows(p, labels, ood))
    want = {name: metric(p, labels) * (100 if name in PERCENT else 1) for name, metric in METRICS.items()}
    areas = metrics.detection(1 - p.amax(1), 1 - ood.amax(1))
    want |= {"auroc": 100 * areas.auroc, "aupr": 100 * areas.aupr}
    assert found == pytest.approx(want, rel=1e-9)


@TIED
def test_a_weight_is_a_number_of_equal_rows(tied: bool) -> None:
    p, labels, ood = predictions(2, tied)
    counts = torch.randint(3, (N + M,), generator=torch.Generator().manual_seed(5))
    rows = _rows(p, labels, ood)
    again = torch.arange(N + M).repeat_interleave(counts)
    in_distribution, out = again[again < N], again[again >= N] - N
    want = evaluate_rows(_rows(p[in_distribution], labels[in_distribution], ood[out]))
    for name, part in rows.items():
        got = float(COLUMNS[name].weighted(part)(counts[None, : len(part)].double()))
        assert got == pytest.approx(want[name], rel=1e-9), name


@NAME
def test_the_interval_is_that_of_the_bootstrap(name: str) -> None:
    p, labels, _ = predictions(3)
    got = metric_intervals({"a": [_rows(p, labels)]}, N, 200, 0.9, seed=4)["a", name]
    want = bootstrap_interval(p, labels, metric=METRICS[name], resamples=200, level=0.9, seed=4)
    scale = 100 if name in PERCENT else 1
    for end in ("value", "low", "high"):
        assert getattr(got, end) == pytest.approx(scale * getattr(want, end), rel=1e-9)


@NAME
def test_p_is_that_of_the_randomization_test(name: str) -> None:
    (p, labels, _), (q, _, _) = predictions(3), predictions(4)
    q = 0.5 * q + 0.5 * p
    got = metric_p_values([_rows(p, labels)], [_rows(q, labels)], N, 199, seed=1)[name]
    want = randomization_test(p, q, labels, metric=METRICS[name], rounds=199, seed=1).p_value
    assert got == pytest.approx(want)


def test_seeds_are_averaged_under_the_same_draws() -> None:
    runs = [predictions(seed) for seed in (1, 2)]
    rows = [_rows(p, labels) for p, labels, _ in runs]
    both = torch.stack([runs[0][0], runs[1][0]], 1)

    def mean(p: Tensor, labels: Tensor) -> float:
        return sum(metrics.calibration_error(p[:, seed], labels) for seed in (0, 1)) * 50

    got = metric_intervals({"a": rows}, N, 100, 0.95, seed=0)["a", "ece"]
    want = bootstrap_interval(both, runs[0][1], metric=mean, resamples=100, seed=0)
    assert (got.value, got.low, got.high) == pytest.approx((want.value, want.low, want.high))


def test_detection_has_an_interval_and_finds_the_better_detector() -> None:
    p, labels, lost = predictions(1)
    sure = torch.tensor([[0.96, 0.02, 0.02]]).double().expand(N, 3)
    unsure = torch.tensor([[0.4, 0.3, 0.3]]).double().expand(M, 3)
    good, poor = _rows(sure, labels, unsure), _rows(p, labels, lost)
    found = metric_intervals({"good": [good], "poor": [poor]}, N, 200, 0.95, seed=0)
    assert found["good", "auroc"].value == found["good", "auroc"].low == 100
    assert found["poor", "auroc"].low < found["poor", "auroc"].value < found["poor", "auroc"].high
    p_value = metric_p_values([good], [poor], N, 199, seed=0)
    assert p_value["auroc"] == p_value["aupr"] == 1 / 200
    assert metric_p_values([poor], [poor], N, 99, seed=0)["auroc"] == 1


def test_regression_values_are_those_of_the_functions() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, variance = torch.randn(4, N, 2, generator=generator), torch.rand(4, N, 2, generator=generator) + 0.1
    targets = torch.randn(N, 2, generator=generator).double()
    found = evaluate_rows(metric_rows("regression", mean, variance, targets))
    cover = metrics.interval_coverage(mean, variance, targets, [0.95])
    want = {
        "mse": metrics.mean_squared_error(mean, targets),
        "mae": float((mean.double().mean(0) - targets).abs().mean()),
        "nll": metrics.gaussian_nll(mean, variance, targets),
        "crps": metrics.gaussian_crps(mean, variance, targets),
        "coverage": 100 * float(cover.coverage),
        "width": float(cover.width),
    }
    assert found == pytest.approx(want)


def test_a_probability_that_underflowed_has_a_finite_likelihood() -> None:
    p = torch.tensor([[1.0, 0.0]])
    rows: Rows = _rows(p, torch.tensor([1]))
    assert 80 < evaluate_rows(rows)["nll"] < 90
    found: Any = metric_intervals({"a": [rows]}, 1, 10, 0.95, 0)["a", "nll"]
    assert found.low == found.high == found.value
