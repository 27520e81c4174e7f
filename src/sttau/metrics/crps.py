"""Continuous ranked probability score of Gaussians, their mixtures, and samples."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sttau.metrics.inputs import FORECAST, SAMPLES, check_forecast, check_samples
from sttau.metrics.record import Metric, PerExample


def gaussian_crps(mean: Any, variance: Any, targets: Any) -> float:
    """Mean continuous ranked probability score, in the unit of the targets; |mean - target| where the variance is 0.

    ∫ (F(x) - [x ≥ target])² dx in closed form: for a Gaussian as in Gneiting et al. (2005), for a mixture as in Grimit
    et al. (2006), at a cost that is quadratic in the number of samples.

    Args:
        mean: (predictions,), (predictions, outputs), or (samples, predictions, outputs) for a mixture.
        variance: Nonnegative variance; same shape as the mean, or broadcastable to it.
        targets: (predictions,) or (predictions, outputs).

    Example:
        >>> round(gaussian_crps([0.0], [1.0], [0.0]), 4)
        0.2337
    """
    return float(gaussian_crps_terms(*check_forecast(mean, variance, targets)).mean())


def gaussian_crps_terms(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    """Return (predictions, outputs) terms whose mean is :func:`gaussian_crps`."""
    spread = sum(_distance(mean[i] - mean, variance[i] + variance).mean(0) for i in range(len(mean))) / len(mean)
    return _distance(targets - mean, variance).mean(0) - spread / 2


def sample_crps(samples: Any, targets: Any, fair: bool = True) -> float:
    """Mean continuous ranked probability score of a forecast given by samples.

    Args:
        samples: (samples, predictions) or (samples, predictions, outputs).
        targets: (predictions,) or (predictions, outputs).
        fair: Whether to estimate, without bias, the score of the distribution the samples were drawn from (Ferro,
            2014); the estimate may be negative for a single prediction. False scores the empirical distribution of
            the samples, which gives larger values if there are few samples.

    Example:
        >>> sample_crps([[0.0], [2.0]], [1.0], fair=False), sample_crps([[0.0], [2.0]], [1.0])
        (0.5, 0.0)
    """
    x, y = check_samples(samples, targets)
    if fair and len(x) < 2:
        raise ValueError("the fair score needs at least 2 samples; draw more, or pass fair=False")
    return float(sample_crps_terms(x, y, fair).mean())


def sample_crps_terms(samples: Tensor, targets: Tensor, fair: bool = True) -> Tensor:
    """Return (predictions, outputs) terms whose mean is :func:`sample_crps`."""
    count = len(samples)
    x = (samples - targets).sort(dim=0).values  # centered: large targets cost no accuracy
    weight = (2 * torch.arange(1, count + 1, dtype=torch.float64, device=x.device) - count - 1)[:, None, None]
    pairs = 2 * (weight * x).sum(0)  # Σ_ij |x_i - x_j|
    return x.abs().mean(0) - pairs / (2 * count * (count - 1 if fair else count))


def _distance(shift: Tensor, variance: Tensor) -> Tensor:
    """E |shift + √variance Z| for a standard Gaussian Z; |shift| where the variance is 0."""
    deviation = variance.sqrt()
    z = torch.where(deviation > 0, shift / deviation, torch.zeros_like(shift))
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    smooth = shift * torch.erf(z / math.sqrt(2)) + 2 * deviation * density
    return torch.where(deviation > 0, smooth, shift.abs())


GAUSSIAN_CRPS = Metric(
    name="crps",
    function=gaussian_crps,
    inputs=FORECAST,
    title="CRPS",
    direction="min",
    digits=4,
    class_name="GaussianCRPS",
    per_example=PerExample("regression", lambda *forecast: gaussian_crps_terms(*forecast).mean(-1, keepdim=True)),
)

SAMPLE_CRPS = Metric(
    name="sample_crps",
    function=sample_crps,
    inputs=SAMPLES,
    title="CRPS of samples",
    direction="min",
    digits=4,
    class_name="SampleCRPS",
)

METRICS = (GAUSSIAN_CRPS, SAMPLE_CRPS)
