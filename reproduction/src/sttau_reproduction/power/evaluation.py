"""Metrics of forecasts that are points of equal probability, and their recalibration."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sttau.metrics import pit_histogram
from sttau.metrics.crps import sample_crps_terms

LEVELS = (0.5, 0.8, 0.95)
SHOWN = 24 * 7  # hours whose forecasts are kept
BINS = 20  # of PIT histograms


def evaluate(points: Tensor, mean: Tensor, power: Tensor) -> dict[str, float]:
    """Measure forecasts that are points of equal probability: errors, CRPS, coverage (in percent) and width.

    Args:
        points: (points, hours) in kW.
        mean: (hours,) point forecasts.
        power: (hours,) measured power.

    Returns:
        Means over the hours.

    Example:
        >>> found = evaluate(torch.arange(1.0, 100.0)[:, None] / 10, torch.tensor([5.0]), torch.tensor([8.0]))
        >>> found["mse"], found["coverage_80"], round(found["width_80"], 2)
        (9.0, 100.0, 7.92)
    """
    return {name: float(values.mean()) for name, values in evaluate_hours(points, mean, power).items()}


def evaluate_hours(points: Tensor, mean: Tensor, power: Tensor) -> dict[str, Tensor]:
    """Return (hours,) terms whose means are :func:`evaluate`."""
    ordered = points.sort(dim=0).values
    terms = {
        "mse": (mean - power).square(),
        "mae": (quantile(ordered, 0.5) - power).abs(),
        "crps": sample_crps_terms(ordered[..., None].double(), power[:, None].double(), fair=False)[:, 0],
    }
    for level in LEVELS:
        low, high = quantile(ordered, (1 - level) / 2), quantile(ordered, (1 + level) / 2)
        terms[f"coverage_{100 * level:.0f}"] = 100 * ((low <= power) & (power <= high)).double()
        terms[f"width_{100 * level:.0f}"] = high - low
    return terms


def quantile(ordered: Tensor, share: float) -> Tensor:
    """Quantile of points that are in order, (points, …), each in the middle of its share."""
    place = min(max(share * len(ordered) - 0.5, 0.0), len(ordered) - 1.0)
    below = math.floor(place)
    return torch.lerp(ordered[below], ordered[min(below + 1, len(ordered) - 1)], place - below)


def recalibrate(points: Tensor, held_out: Tensor, power: Tensor) -> Tensor:
    """Recalibrate the quantiles of a distribution on held-out hours (Kuleshov et al., 2018).

    Args:
        points: (points, hours) of the distribution to be recalibrated.
        held_out: (points, other hours) of the same forecaster.
        power: (other hours,) power measured there.

    Example:
        >>> wide = torch.linspace(-3, 3, 601)[:, None].expand(-1, 1001)  # far too wide
        >>> better = recalibrate(wide, wide, torch.linspace(-1, 1, 1001))
        >>> round(better.max().item(), 1), round(better.min().item(), 1)
        (1.0, -1.0)
    """
    ordered = points.sort(dim=0).values
    pit = (held_out < power).double().mean(0)
    share = (torch.arange(len(points), dtype=torch.float64) + 0.5) / len(points)
    place = (torch.quantile(pit, share) * len(points) - 0.5).clamp(0, len(points) - 1)
    below = place.floor().long()
    above = (below + 1).clamp_max(len(points) - 1)
    return torch.lerp(ordered[below], ordered[above], (place - below).to(ordered)[:, None])


def summarize(points: Tensor, mean: Tensor, power: Tensor) -> dict[str, Any]:
    """What figures show: the first hours, and the PIT histogram of all."""
    ordered = points.sort(dim=0).values[:, : len(power)]
    pit = (ordered < power).double().mean(0)

    def short(values: Tensor) -> list[float]:
        return [round(value, 4) for value in values[:SHOWN].tolist()]

    return {
        "power": short(power),
        "mean": short(mean),
        "squared_error": short((mean - power).square()),
        "bands": {f"{100 * share:g}": short(quantile(ordered, share)) for share in (0.025, 0.25, 0.5, 0.75, 0.975)},
        "pit": [round(value, 4) for value in pit_histogram(pit, BINS).density.tolist()],
    }
