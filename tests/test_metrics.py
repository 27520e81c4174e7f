"""The torchmetrics classes give what the functions give."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sttau import metrics


def _classification(generator: torch.Generator, size: int) -> tuple[Tensor, ...]:
    p = (2 * torch.randn(size, 3, generator=generator, dtype=torch.float64)).softmax(-1)
    return p, torch.randint(3, (size,), generator=generator)


def _forecast(generator: torch.Generator, size: int) -> tuple[Tensor, ...]:
    mean, variance = torch.randn(2, 4, size, 2, generator=generator, dtype=torch.float64)
    return mean, variance.square() + 0.1, torch.randn(size, 2, generator=generator, dtype=torch.float64)


def _samples(generator: torch.Generator, size: int) -> tuple[Tensor, ...]:
    mean, _, targets = _forecast(generator, size)
    return mean, targets


def _foreign(generator: torch.Generator, size: int) -> tuple[Tensor, ...]:
    return torch.rand(size, generator=generator), torch.arange(size) % 2 == 0


def _doubt(generator: torch.Generator, size: int) -> tuple[Tensor, ...]:
    return torch.rand(size, generator=generator), torch.rand(size, generator=generator)


def _split_detection(scores: Tensor, foreign: Tensor) -> metrics.Detection:
    return metrics.detection(scores[~foreign], scores[foreign])


def _histogram(mean: Tensor, variance: Tensor, targets: Tensor) -> metrics.PITHistogram:
    return metrics.pit_histogram(metrics.pit_values(mean, variance, targets), bins=4)


CASES: dict[str, tuple[Any, Any, Any]] = {  # the class, its function, data
    "ece": (metrics.CalibrationError, metrics.calibration_error, _classification),
    "mce": (
        partial(metrics.CalibrationError, bins=5, norm="maximum"),
        partial(metrics.calibration_error, bins=5, norm="maximum"),
        _classification,
    ),
    "adaptive": (
        partial(metrics.CalibrationError, binning="mass"),
        partial(metrics.calibration_error, binning="mass"),
        _classification,
    ),
    "classwise": (
        partial(metrics.ClasswiseCalibrationError, bins=7),
        partial(metrics.classwise_calibration_error, bins=7),
        _classification,
    ),
    "curve": (
        partial(metrics.ReliabilityCurve, bins=3, binning="mass"),
        partial(metrics.reliability_curve, bins=3, binning="mass"),
        _classification,
    ),
    "error": (metrics.PredictionError, metrics.prediction_error, _classification),
    "nll": (metrics.NegativeLogLikelihood, metrics.negative_log_likelihood, _classification),
    "brier": (metrics.BrierScore, metrics.brier_score, _classification),
    "brier parts": (
        partial(metrics.BrierDecomposition, bins=4),
        partial(metrics.decompose_brier, bins=4),
        _classification,
    ),
    "mse": (metrics.MeanSquaredError, metrics.mean_squared_error, _samples),
    "sample crps": (metrics.SampleCRPS, metrics.sample_crps, _samples),
    "plain sample crps": (
        partial(metrics.SampleCRPS, fair=False),
        partial(metrics.sample_crps, fair=False),
        _samples,
    ),
    "gaussian nll": (metrics.GaussianNLL, metrics.gaussian_nll, _forecast),
    "gaussian crps": (metrics.GaussianCRPS, metrics.gaussian_crps, _forecast),
    "coverage": (
        partial(metrics.IntervalCoverage, levels=[0.3, 0.8]),
        partial(metrics.interval_coverage, levels=[0.3, 0.8]),
        _forecast,
    ),
    "pit": (partial(metrics.PITHistogram, bins=4), _histogram, _forecast),
    "detection": (metrics.Detection, _split_detection, _foreign),
    "aurc": (metrics.AreaUnderRiskCoverage, metrics.area_under_risk_coverage, _doubt),
    "excess aurc": (
        partial(metrics.AreaUnderRiskCoverage, excess=True),
        partial(metrics.area_under_risk_coverage, excess=True),
        _doubt,
    ),
}
SIZES = (5, 1, 8)


def _batches(make: Any) -> tuple[list[tuple[Tensor, ...]], tuple[Tensor, ...]]:
    """Three batches of different size, and the same data in one."""
    generator = torch.Generator().manual_seed(0)
    batches = [make(generator, size) for size in SIZES]
    return batches, _joined(*batches)


def _joined(*batches: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.cat(parts, dim=1 if parts[0].dim() == 3 else 0) for parts in zip(*batches, strict=True))


def _same(got: Any, want: Any) -> bool:
    if is_dataclass(want):
        return set(got) == {field.name for field in fields(want)} and all(
            torch.allclose(got[name].double(), torch.as_tensor(getattr(want, name)).double(), equal_nan=True)
            for name in got
        )
    return bool(got.dtype == torch.float64) and got.item() == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_batches_give_what_the_function_gives_on_the_whole(case: str) -> None:
    build, function, make = CASES[case]
    batches, whole = _batches(make)
    metric = build()
    for batch in batches:
        metric.update(*batch)
    assert _same(metric.compute(), function(*whole))


@pytest.mark.parametrize("case", CASES)
def test_after_a_reset_nothing_is_remembered(case: str) -> None:
    build, function, make = CASES[case]
    batches, _ = _batches(make)
    metric = build()
    metric.update(*batches[0])
    metric.reset()
    metric.update(*batches[2])
    assert _same(metric.compute(), function(*batches[2]))


@pytest.mark.parametrize("case", CASES)
def test_two_merged_give_what_the_function_gives_on_the_whole(case: str) -> None:
    build, function, make = CASES[case]
    batches, whole = _batches(make)
    first, second = build(), build()
    first.update(*batches[0])
    second.update(*batches[1])
    second.update(*batches[2])
    second.merge_state(first)
    assert _same(second.compute(), function(*whole))


@pytest.mark.parametrize("case", CASES)
def test_called_directly_a_class_measures_the_batch_and_remembers_it(case: str) -> None:
    build, function, make = CASES[case]
    batches, _ = _batches(make)
    metric = build()
    metric.update(*batches[0])
    assert _same(metric(*batches[2]), function(*batches[2]))
    assert _same(metric.compute(), function(*_joined(batches[0], batches[2])))


def test_two_processes_agree_on_the_whole(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(tmp_path / "meeting")], stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors


def _measure_together(rank: int, meeting: str) -> None:
    """One of two processes: two batches here, one there."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    for name, (build, function, make) in CASES.items():
        batches, _ = _batches(make)
        metric = build()
        for batch in batches[rank::2]:
            metric.update(*batch)
        assert _same(metric.compute(), function(*_joined(batches[0], batches[2], batches[1]))), name
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("metric", "data", "message"),
    [
        (metrics.BrierScore, ([[0.5, 0.4]], [0]), "sum to 1"),
        (metrics.CalibrationError, ([[0.5, 0.5]], [2]), "labels must be in"),
        (metrics.GaussianCRPS, ([0.0], [-1.0], [0.0]), "variance must be"),
        (metrics.Detection, ([0.0], [1]), "foreign must be True or False"),
        (metrics.AreaUnderRiskCoverage, ([0.0], [1.0, 1.0]), "equally many"),
    ],
)
def test_a_bad_batch_is_refused_when_it_comes(metric: Any, data: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metric().update(*data)


def test_the_library_does_not_load_torchmetrics_and_says_how_to_get_it() -> None:
    code = (
        "import sys, sttau; assert 'torchmetrics' not in sys.modules; sys.modules['torchmetrics'] = None\n"
        "try:\n    import sttau.metrics\nexcept ImportError as error:\n    print(error)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'sttau[torchmetrics]'" in shown


if __name__ == "__main__":
    _measure_together(int(sys.argv[1]), sys.argv[2])
