"""The torchmetrics classes give the values of the functions."""

from __future__ import annotations

import doctest
import inspect
import os
import pickle
import subprocess
import sys
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torchmetrics
from torch import Tensor

from sttau import metrics
from sttau.metrics import METRICS
from sttau.metrics import torchmetrics as classes


def _classification(generator: torch.Generator, size: int) -> tuple[Tensor, ...]:
    p = (2 * torch.randn(size, 3, generator=generator, dtype=torch.float64)).softmax(-1)
    return p, torch.randint(3, (size,), generator=generator)


def _forecast(generator: torch.Generator, size: int) -> tuple[Tensor, ...]:
    mean, variance = torch.randn(2, 4, size, 2, generator=generator, dtype=torch.float64)
    return mean, variance.square() + 0.1, torch.randn(size, 2, generator=generator, dtype=torch.float64)


def _samples(generator: torch.Generator, size: int) -> tuple[Tensor, ...]:
    mean, _, targets = _forecast(generator, size)
    return mean, targets


def _scores(generator: torch.Generator, size: int) -> tuple[Tensor, ...]:
    return torch.rand(size, generator=generator), torch.arange(size) % 2 == 0


def _doubt(generator: torch.Generator, size: int) -> tuple[Tensor, ...]:
    return torch.rand(size, generator=generator), torch.rand(size, generator=generator)


def _split_detection(scores: Tensor, is_ood: Tensor) -> metrics.Detection:
    return metrics.detection(scores[~is_ood], scores[is_ood])


def _histogram(mean: Tensor, variance: Tensor, targets: Tensor) -> metrics.PITHistogram:
    return metrics.pit_histogram(metrics.pit_values(mean, variance, targets), bins=4)


CASES: dict[str, tuple[Any, Any, Any]] = {  # the class, its function, data
    "ece": (classes.CalibrationError, metrics.calibration_error, _classification),
    "mce": (
        partial(classes.CalibrationError, bins=5, norm="maximum"),
        partial(metrics.calibration_error, bins=5, norm="maximum"),
        _classification,
    ),
    "adaptive": (
        partial(classes.CalibrationError, binning="mass"),
        partial(metrics.calibration_error, binning="mass"),
        _classification,
    ),
    "classwise": (
        partial(classes.ClasswiseCalibrationError, bins=7),
        partial(metrics.classwise_calibration_error, bins=7),
        _classification,
    ),
    "curve": (
        partial(classes.ReliabilityCurve, bins=3, binning="mass"),
        partial(metrics.reliability_curve, bins=3, binning="mass"),
        _classification,
    ),
    "error": (classes.PredictionError, metrics.prediction_error, _classification),
    "nll": (classes.NegativeLogLikelihood, metrics.negative_log_likelihood, _classification),
    "brier": (classes.BrierScore, metrics.brier_score, _classification),
    "brier parts": (
        partial(classes.BrierDecomposition, bins=4),
        partial(metrics.decompose_brier, bins=4),
        _classification,
    ),
    "mse": (classes.MeanSquaredError, metrics.mean_squared_error, _samples),
    "mae": (classes.MeanAbsoluteError, metrics.mean_absolute_error, _samples),
    "sample crps": (classes.SampleCRPS, metrics.sample_crps, _samples),
    "plain sample crps": (
        partial(classes.SampleCRPS, fair=False),
        partial(metrics.sample_crps, fair=False),
        _samples,
    ),
    "gaussian nll": (classes.GaussianNLL, metrics.gaussian_nll, _forecast),
    "gaussian crps": (classes.GaussianCRPS, metrics.gaussian_crps, _forecast),
    "coverage": (
        partial(classes.IntervalCoverage, levels=[0.3, 0.8]),
        partial(metrics.interval_coverage, levels=[0.3, 0.8]),
        _forecast,
    ),
    "pit": (partial(classes.PITHistogram, bins=4), _histogram, _forecast),
    "detection": (classes.Detection, _split_detection, _scores),
    "aurc": (classes.AreaUnderRiskCoverage, metrics.area_under_risk_coverage, _doubt),
    "excess aurc": (
        partial(classes.AreaUnderRiskCoverage, excess=True),
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


@pytest.mark.slow
def test_two_processes_agree_on_the_whole(tmp_path: Path) -> None:
    command = [sys.executable, __file__, str(tmp_path / "meeting")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


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
        (classes.BrierScore, ([[0.5, 0.4]], [0]), "sum to 1"),
        (classes.CalibrationError, ([[0.5, 0.5]], [2]), "labels must be in"),
        (classes.GaussianCRPS, ([0.0], [-1.0], [0.0]), "variance must be"),
        (classes.Detection, ([0.0], [1]), "is_ood must be True or False"),
        (classes.AreaUnderRiskCoverage, ([0.0], [1.0, 1.0]), "the same length"),
    ],
)
def test_a_bad_batch_is_rejected(metric: Any, data: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metric().update(*data)


def test_every_definition_with_a_class_name_has_a_tested_class() -> None:
    named = {metric.class_name for metric in METRICS.values() if metric.class_name}
    assert named == set(classes.__all__) - {"AccumulatedMetric"}
    tested = {getattr(build, "func", build).__name__ for build, _, _ in CASES.values()}
    assert tested == named


@pytest.mark.parametrize("name", sorted(set(classes.__all__) - {"AccumulatedMetric"}))
def test_the_example_in_the_docstring_runs(name: str) -> None:
    kind = getattr(classes, name)
    example = doctest.DocTestParser().get_doctest(kind.__doc__, {name: kind}, name, None, None)
    assert example.examples
    assert not doctest.DocTestRunner().run(example).failed


def test_the_direction_and_the_signature_are_those_of_the_definition() -> None:
    assert classes.BrierScore.higher_is_better is False
    assert classes.Detection.higher_is_better is None
    assert list(inspect.signature(classes.CalibrationError).parameters) == ["bins", "norm", "binning", "kwargs"]
    assert classes.CalibrationError(5).compute_on_cpu is False
    with pytest.raises(TypeError, match="too many positional arguments"):
        classes.BrierScore(10)


def test_a_class_survives_pickling_and_works_in_a_collection() -> None:
    p, y = [[0.9, 0.1], [0.8, 0.2]], [0, 1]
    metric = classes.CalibrationError(bins=5)
    metric.update(p, y)
    assert pickle.loads(pickle.dumps(metric)).compute() == metric.compute()
    collection = torchmetrics.MetricCollection([classes.BrierScore(), classes.PredictionError()])
    collection.update(probabilities=p, labels=y)
    assert collection.compute()["PredictionError"] == 0.5


def test_the_library_does_not_load_torchmetrics_and_says_how_to_get_it() -> None:
    code = (
        "import sys, sttau.metrics; assert 'torchmetrics' not in sys.modules; sys.modules['torchmetrics'] = None\n"
        "try:\n    import sttau.metrics.torchmetrics\nexcept ImportError as error:\n    print(error)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'sttau[torchmetrics]'" in shown


if __name__ == "__main__":  # both processes are forked from one that has loaded everything
    other = os.fork()
    _measure_together(0 if other else 1, sys.argv[1])
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) if other else 0)
