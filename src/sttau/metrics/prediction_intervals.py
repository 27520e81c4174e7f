"""Quantiles and central prediction intervals of forecasts, their coverage and their width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sttau.checks import check_level
from sttau.metrics.inputs import FORECAST, check_forecast, check_variance, with_samples
from sttau.metrics.record import Metric, PerExample

_BISECTIONS = 80  # steps of the search for a quantile of a mixture
_LEVEL = 0.95  # of the intervals in tables


@dataclass(frozen=True)
class IntervalCoverage:
    """Coverage and width of central prediction intervals.

    Attributes:
        level: (levels,) nominal probabilities.
        coverage: (levels,) fraction of targets inside the interval; equal to the level for a calibrated forecast.
        width: (levels,) mean width, to be compared between forecasts of equal coverage.
    """

    level: Tensor
    coverage: Tensor
    width: Tensor


def quantile(mean: Any, variance: Any, share: float) -> Tensor:
    """(predictions, outputs) quantile of the forecast: the value below which the given probability lies.

    Args:
        mean: (predictions,), (predictions, outputs), or (samples, predictions, outputs) for a mixture.
        variance: Nonnegative variance; same shape as the mean, or broadcastable to it.
        share: Probability between 0 and 1; 0.5 for the median.

    Example:
        >>> round(quantile([[[-1.0]], [[1.0]]], [[[1.0]], [[1.0]]], 0.9).item(), 3)  # mixture of two Gaussians
        1.849
    """
    check_level("share", share, 0.5)
    middle = with_samples("mean", mean)
    return _quantile(middle, check_variance(variance, middle), share)


def central_interval(mean: Any, variance: Any, level: float = 0.9) -> tuple[Tensor, Tensor]:
    """Bounds that leave probability (1 - level) / 2 on either side, each (predictions, outputs).

    Args:
        mean: (predictions,), (predictions, outputs), or (samples, predictions, outputs) for a mixture.
        variance: Nonnegative variance; same shape as the mean, or broadcastable to it.
        level: Probability of the interval, between 0 and 1.

    Example:
        >>> low, high = central_interval([0.0], [4.0], level=0.95)
        >>> round(low.item(), 2), round(high.item(), 2)
        (-3.92, 3.92)
    """
    check_level("level", level, 0.9)
    middle = with_samples("mean", mean)
    spread = check_variance(variance, middle)
    tail = (1 - level) / 2
    return _quantile(middle, spread, tail), _quantile(middle, spread, 1 - tail)


def interval_coverage(
    mean: Any, variance: Any, targets: Any, levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95)
) -> IntervalCoverage:
    """Fraction of targets inside the central intervals of the given levels, bounds included, and their mean width.

    Args:
        mean: (predictions,), (predictions, outputs), or (samples, predictions, outputs) for a mixture.
        variance: Nonnegative variance; same shape as the mean, or broadcastable to it.
        targets: (predictions,) or (predictions, outputs).
        levels: Probabilities between 0 and 1.

    Example:
        >>> found = interval_coverage([0.0, 0.0], [1.0, 1.0], [0.5, 1.5], levels=[0.5, 0.9])
        >>> found.coverage.tolist(), [round(w, 2) for w in found.width.tolist()]
        ([0.5, 1.0], [1.35, 3.29])
    """
    middle, spread, y = check_forecast(mean, variance, targets)
    if len(levels) == 0:
        raise ValueError("levels must hold at least one probability, for instance [0.9]")
    bounds = [central_interval(middle, spread, level) for level in levels]
    return IntervalCoverage(
        level=torch.tensor(levels, dtype=torch.float64, device=y.device),
        coverage=torch.stack([_inside(low, high, y).mean() for low, high in bounds]),
        width=torch.stack([(high - low).mean() for low, high in bounds]),
    )


def mixture_cdf(mean: Tensor, variance: Tensor, at: Tensor) -> Tensor:
    """Distribution function of the forecast, averaged over samples; a point mass counts half at its own place."""
    shift, deviation = at - mean, variance.sqrt()
    smooth: Tensor = torch.special.ndtr(shift / deviation)
    return torch.where(deviation > 0, smooth, (shift.sign() + 1) / 2).mean(0)


def _quantile(mean: Tensor, variance: Tensor, share: float) -> Tensor:
    """F⁻¹(share): in closed form for one sample, by bisection between the quantiles of the parts for a mixture."""
    parts: Tensor = mean + variance.sqrt() * torch.special.ndtri(torch.tensor(share, dtype=torch.float64)).to(mean)
    low, high = parts.amin(0), parts.amax(0)
    if len(mean) == 1:
        return low
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = mixture_cdf(mean, variance, middle) < share
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


def _inside(low: Tensor, high: Tensor, targets: Tensor) -> Tensor:
    return ((low <= targets) & (targets <= high)).to(torch.float64)


def _coverage(mean: Any, variance: Any, targets: Any) -> float:
    return float(interval_coverage(mean, variance, targets, [_LEVEL]).coverage)


def _width(mean: Any, variance: Any, targets: Any) -> float:
    return float(interval_coverage(mean, variance, targets, [_LEVEL]).width)


def _coverage_rows(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    return _inside(*central_interval(mean, variance, _LEVEL), targets).mean(-1, keepdim=True)


def _width_rows(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    low, high = central_interval(mean, variance, _LEVEL)
    return (high - low).mean(-1, keepdim=True)


COVERAGE = Metric(
    name="coverage",
    function=_coverage,
    inputs=FORECAST,
    title="95 % interval: coverage",
    digits=1,
    percent=True,
    per_example=PerExample("regression", _coverage_rows),
)

WIDTH = Metric(
    name="width",
    function=_width,
    inputs=FORECAST,
    title="95 % interval: width",
    per_example=PerExample("regression", _width_rows),
)

INTERVAL_COVERAGE = Metric(
    name="interval_coverage",
    function=interval_coverage,
    inputs=FORECAST,
    title="coverage and width of intervals",
    class_name="IntervalCoverage",
)

METRICS = (COVERAGE, WIDTH, INTERVAL_COVERAGE)
