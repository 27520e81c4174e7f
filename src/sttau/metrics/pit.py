"""Probability integral transform of forecasts, and its histogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_integer, as_numbers
from sttau.metrics.inputs import FORECAST, Inputs, check_forecast
from sttau.metrics.prediction_intervals import mixture_cdf
from sttau.metrics.record import Metric


@dataclass(frozen=True)
class PITHistogram:
    """Histogram of PIT values: flat if calibrated, ∪ if overconfident, ∩ if underconfident, sloped if biased.

    Attributes:
        edges: (bins + 1,) edges of equal width from 0 to 1. A bin includes its upper edge; 0 belongs to the first bin.
        count: (bins,) number of values in each bin.
        density: (bins,) density of the values; 1 everywhere if calibrated.
    """

    edges: Tensor
    count: Tensor
    density: Tensor


def pit_values(mean: Any, variance: Any, targets: Any) -> Tensor:
    """Probability integral transform F(target), (predictions, outputs): uniform for a calibrated forecast.

    Where the variance is 0, a target equal to the mean counts half.

    Args:
        mean: (predictions,), (predictions, outputs), or (samples, predictions, outputs) for a mixture.
        variance: Nonnegative variance; same shape as the mean, or broadcastable to it.
        targets: (predictions,) or (predictions, outputs).

    Example:
        >>> [round(v, 3) for v in pit_values([0.0, 0.0], [1.0, 4.0], [0.0, 2.0])[:, 0].tolist()]
        [0.5, 0.841]
    """
    return mixture_cdf(*check_forecast(mean, variance, targets))


def pit_histogram(values: Any, bins: int = 10) -> PITHistogram:
    """Count PIT values in bins of equal width.

    Args:
        values: PIT values of any shape, from :func:`pit_values`.
        bins: Number of bins.

    Example:
        >>> pit_histogram([0.0, 0.1, 0.6, 1.0], bins=2).density.tolist()
        [1.0, 1.0]
    """
    v = as_numbers("values", values).to(torch.float64).flatten()
    if len(v) == 0 or not bool(((v >= 0) & (v <= 1)).all()):
        raise ValueError("values must be probabilities in [0, 1] and not empty; get them from pit_values")
    bins = as_integer("bins", bins, 1)
    edges = torch.arange(bins + 1, dtype=torch.float64, device=v.device) / bins
    count = torch.bincount((torch.bucketize(v, edges) - 1).clamp_min(0), minlength=bins)
    return PITHistogram(edges, count, count * (bins / len(v)))


def _check(mean: Any, variance: Any, targets: Any) -> tuple[Tensor, ...]:
    """Add forecasts, with or without a leading dimension of samples, and their targets."""
    return (pit_values(mean, variance, targets),)


PIT_HISTOGRAM = Metric(
    name="pit_histogram",
    function=pit_histogram,
    inputs=Inputs(("values",), _check, FORECAST.example),
    title="PIT histogram",
    class_name="PITHistogram",
)

METRICS = (PIT_HISTOGRAM,)
