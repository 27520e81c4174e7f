"""Metrics, tests and scalings take tensors of a GPU and give what they give on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, is_dataclass
from typing import Any

import pytest
import torch

from sttau import calibration, metrics, ood
from sttau.metrics.torchmetrics import CalibrationError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICE = "cuda"

generator = torch.Generator().manual_seed(0)
runs, other = (2 * torch.randn(2, 4, 50, 3, generator=generator, dtype=torch.float64)).softmax(-1)
p, q = runs.mean(0), other.mean(0)
labels = torch.randint(3, (50,), generator=generator)
mean, variance = torch.randn(4, 50, 1, generator=generator), torch.rand(4, 50, 1, generator=generator) + 0.1
targets = torch.randn(50, generator=generator)

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "ece": (metrics.calibration_error, (p, labels)),
    "curve": (lambda p, y: metrics.reliability_curve(p, y, binning="mass"), (p, labels)),
    "classwise": (metrics.classwise_calibration_error, (p, labels)),
    "brier": (metrics.decompose_brier, (p, labels)),
    "interval": (
        lambda p, y: metrics.bootstrap_interval(p, y, metric=metrics.brier_score, resamples=50, method="bca"),
        (p, labels),
    ),
    "interval of a mean": (lambda x: metrics.bootstrap_interval(x, resamples=50, method="bca"), (targets,)),
    "randomization": (
        lambda p, q, y: metrics.randomization_test(p, q, y, metric=metrics.brier_score, rounds=50),
        (p, q, labels),
    ),
    "randomization of means": (metrics.randomization_test, (p[:, 0], q[:, 0])),
    "bootstrap": (metrics.paired_bootstrap, (p[:, 0], q[:, 0])),
    "temperature": (lambda z, y: calibration.TemperatureScaling().fit(z, y).probabilities(z), (runs.log(), labels)),
    "isotonic": (lambda z, y: calibration.IsotonicScaling().fit(z, y).probabilities(z), (runs.log(), labels)),
    "crps": (metrics.gaussian_crps, (mean, variance, targets)),
    "sample crps": (metrics.sample_crps, (mean, targets)),
    "coverage": (metrics.interval_coverage, (mean, variance, targets)),
    "pit": (lambda *data: metrics.pit_histogram(metrics.pit_values(*data)), (mean, variance, targets)),
    "detection": (metrics.detection, (p[:, 0], q[:, 0])),
    "aurc": (metrics.area_under_risk_coverage, (p[:, 0], q[:, 0])),
    **{name: (score, (runs,)) for name, score in ood.SCORES.items()},
}


def _numbers(result: Any) -> list[torch.Tensor]:
    if is_dataclass(result) and not isinstance(result, type):
        return [number for part in astuple(result) for number in _numbers(part)]
    if isinstance(result, tuple):
        return [number for part in result for number in _numbers(part)]
    return [] if result is None else [torch.as_tensor(result).double().cpu()]


@pytest.mark.parametrize("name", CASES)
def test_the_gpu_gives_what_the_cpu_gives(name: str) -> None:
    function, data = CASES[name]
    here, there = _numbers(function(*data)), _numbers(function(*(part.to(DEVICE) for part in data)))
    assert len(here) == len(there) > 0
    for cpu, gpu in zip(here, there, strict=True):
        # The place of a minimum is known to the square root of rounding.
        tolerance = 1e-7 if name == "temperature" else 1e-9
        torch.testing.assert_close(gpu, cpu, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_vector_scaling_on_the_gpu_is_as_good() -> None:
    z, y = runs.log().to(DEVICE), labels.to(DEVICE)
    scaling = calibration.VectorScaling().fit(z, y)
    assert scaling.probabilities(z).device.type == DEVICE
    here = calibration.VectorScaling().fit(runs.log(), labels).probabilities(runs.log())
    assert metrics.negative_log_likelihood(scaling.probabilities(z), y) == pytest.approx(
        metrics.negative_log_likelihood(here, labels), abs=1e-5
    )


def test_a_torchmetrics_class_stays_on_the_gpu() -> None:
    metric = CalibrationError().to(DEVICE)
    for rows in torch.arange(50).split(20):
        metric.update(p[rows].to(DEVICE), labels[rows].to(DEVICE))
    answer = metric.compute()
    assert isinstance(answer, torch.Tensor)
    assert answer.device.type == DEVICE
    assert answer.item() == pytest.approx(metrics.calibration_error(p, labels))
