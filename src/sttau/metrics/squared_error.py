"""Mean squared and mean absolute error of predicted means."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sttau.metrics.inputs import MEAN, check_mean
from sttau.metrics.record import Metric, PerExample


def mean_squared_error(mean: Any, targets: Any) -> float:
    """Mean of (mean - target)²; samples are averaged first.

    Args:
        mean: (predictions,), (predictions, outputs) or (samples, predictions, outputs).
        targets: (predictions,) or (predictions, outputs).

    Example:
        >>> mean_squared_error([1.0, 2.0], [1.0, 4.0])
        2.0
    """
    middle, y = check_mean(mean, targets)
    return float((middle.mean(0) - y).square().mean())


def mean_absolute_error(mean: Any, targets: Any) -> float:
    """Mean of |mean - target|; samples are averaged first.

    Args:
        mean: (predictions,), (predictions, outputs) or (samples, predictions, outputs).
        targets: (predictions,) or (predictions, outputs).

    Example:
        >>> mean_absolute_error([1.0, 2.0], [1.0, 4.0])
        1.0
    """
    middle, y = check_mean(mean, targets)
    return float((middle.mean(0) - y).abs().mean())


def _squared(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    return (mean.mean(0) - targets).square().mean(-1, keepdim=True)


def _absolute(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    return (mean.mean(0) - targets).abs().mean(-1, keepdim=True)


MEAN_SQUARED_ERROR = Metric(
    name="mse",
    function=mean_squared_error,
    inputs=MEAN,
    title="MSE",
    direction="min",
    digits=4,
    class_name="MeanSquaredError",
    per_example=PerExample("regression", _squared),
)

MEAN_ABSOLUTE_ERROR = Metric(
    name="mae",
    function=mean_absolute_error,
    inputs=MEAN,
    title="MAE",
    direction="min",
    digits=4,
    class_name="MeanAbsoluteError",
    per_example=PerExample("regression", _absolute),
)

METRICS = (MEAN_SQUARED_ERROR, MEAN_ABSOLUTE_ERROR)
