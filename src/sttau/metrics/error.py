"""Prediction error: the fraction of wrong predictions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.metrics.inputs import CLASSIFICATION, check_classification
from sttau.metrics.record import Metric, PerExample


def prediction_error(probabilities: Any, labels: Any) -> float:
    """Fraction of predictions whose most probable class is not the label.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.

    Example:
        >>> prediction_error([[0.9, 0.1], [0.8, 0.2]], [0, 1])
        0.5
    """
    return float(mistakes(*check_classification(probabilities, labels)).mean())


def mistakes(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return (predictions,) 1 for a wrong prediction and 0 for a right one."""
    return (probabilities.argmax(dim=-1) != labels).to(torch.float64)


PREDICTION_ERROR = Metric(
    name="pe",
    function=prediction_error,
    inputs=CLASSIFICATION,
    title="error",
    direction="min",
    digits=2,
    percent=True,
    class_name="PredictionError",
    per_example=PerExample("classification", lambda p, labels: mistakes(p, labels)[:, None]),
)

METRICS = (PREDICTION_ERROR,)
