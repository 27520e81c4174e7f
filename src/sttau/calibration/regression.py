"""How good predicted numbers and their uncertainty are.

A forecast is a mean and a variance for each target, (predictions,) or (predictions, outputs). With runs in front,
(runs, predictions, outputs), it is the mixture of equally probable Gaussians that a Monte-Carlo prediction is; the
variance may then lack the runs. For what ``predict`` returned:

- ``r.mean, r.variance``: one Gaussian with the prediction's mean and total variance;
- ``r.samples, r.sample_variance``: the mixture over runs, made with ``keep_samples=True``.

Every function averages over predictions and outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_numbers

_HALVINGS = 80  # of the interval in which a mixture's quantile lies


@dataclass(frozen=True)
class IntervalCoverage:
    """Central prediction intervals against what happened.

    Attributes:
        level: (levels,) nominal probability.
        coverage: (levels,) share of targets inside; the level itself for a calibrated forecast.
        width: (levels,) mean width, to be compared among forecasts that cover alike.
    """

    level: Tensor
    coverage: Tensor
    width: Tensor


@dataclass(frozen=True)
class PITHistogram:
    """Histogram of PIT values: flat when calibrated, ∪ when too sure, ∩ when too unsure, sloped when biased.

    Attributes:
        edges: (bins + 1,) of equal width from 0 to 1. A bin holds its upper edge; 0 belongs to the first.
        count: (bins,) values in each bin.
        density: (bins,) 1 everywhere when calibrated.
    """

    edges: Tensor
    count: Tensor
    density: Tensor


def mean_squared_error(mean: Any, targets: Any) -> float:
    """Mean of (mean - target)²; runs are averaged first.

    Example:
        >>> mean_squared_error([1.0, 2.0], [1.0, 4.0])
        2.0
    """
    middle, y = check_mean(mean, targets)
    return float((middle.mean(0) - y).square().mean())


def gaussian_nll(mean: Any, variance: Any, targets: Any) -> float:
    """Mean of -log density at the target, in nats, the constant ½ log 2π included.

    Args:
        mean: (predictions,), (predictions, outputs), or (runs, predictions, outputs) for a mixture.
        variance: of the same shape or one that broadcasts; positive.
        targets: (predictions,) or (predictions, outputs).

    Example:
        >>> round(gaussian_nll([0.0], [1.0], [0.0]), 4)
        0.9189
    """
    return float(nll_terms(mean, variance, targets).mean())


def nll_terms(mean: Any, variance: Any, targets: Any) -> Tensor:
    """(predictions, outputs) of which :func:`gaussian_nll` is the mean."""
    middle, spread, y = check_forecast(mean, variance, targets)
    if not bool((spread > 0).all()):
        raise ValueError(
            "variance must be positive for a density; a model without variance head has no noise of the data"
        )
    log_density = -0.5 * ((y - middle).square() / spread + spread.log() + math.log(2 * math.pi))
    return math.log(len(middle)) - log_density.logsumexp(0)


def gaussian_crps(mean: Any, variance: Any, targets: Any) -> float:
    """Mean continuous ranked probability score, in the unit of the targets; |mean - target| where variance is 0.

    ∫ (F(x) - [x ≥ target])² dx in closed form: for a Gaussian as Gneiting et al. (2005), for a mixture as Grimit et al.
    (2006), whose cost grows with the square of the runs.

    Args:
        mean: (predictions,), (predictions, outputs), or (runs, predictions, outputs) for a mixture.
        variance: of the same shape or one that broadcasts; not negative.
        targets: (predictions,) or (predictions, outputs).

    Example:
        >>> round(gaussian_crps([0.0], [1.0], [0.0]), 4)
        0.2337
    """
    return float(crps_terms(mean, variance, targets).mean())


def crps_terms(mean: Any, variance: Any, targets: Any) -> Tensor:
    """(predictions, outputs) of which :func:`gaussian_crps` is the mean."""
    middle, spread, y = check_forecast(mean, variance, targets)
    apart = sum(_distance(middle[i] - middle, spread[i] + spread).mean(0) for i in range(len(middle))) / len(middle)
    return _distance(y - middle, spread).mean(0) - apart / 2


def sample_crps(samples: Any, targets: Any, fair: bool = True) -> float:
    """Mean continuous ranked probability score of a forecast known by samples alone.

    Args:
        samples: (runs, predictions) or (runs, predictions, outputs).
        targets: (predictions,) or (predictions, outputs).
        fair: estimate the score of the law the samples came from without bias (Ferro, 2014); it may be negative for a
            single prediction. False scores the samples as if they were the whole law: with few runs that is larger.

    Example:
        >>> sample_crps([[0.0], [2.0]], [1.0], fair=False), sample_crps([[0.0], [2.0]], [1.0])
        (0.5, 0.0)
    """
    x = as_numbers("samples", samples)
    if x.dim() not in (2, 3):
        raise ValueError(f"samples must be (runs, predictions) or (runs, predictions, outputs), got {tuple(x.shape)}")
    x, y = check_mean(x if x.dim() == 3 else x[..., None], targets)
    runs = len(x)
    if fair and runs < 2:
        raise ValueError("the fair score needs at least 2 runs; draw more, or pass fair=False")
    x = (x - y).sort(dim=0).values  # centered, so that large targets cost no accuracy
    weight = (2 * torch.arange(1, runs + 1, dtype=torch.float64, device=x.device) - runs - 1)[:, None, None]
    pairs = 2 * (weight * x).sum(0)  # Σ_ij |x_i - x_j|
    return float((x.abs().mean(0) - pairs / (2 * runs * (runs - 1 if fair else runs))).mean())


def quantile(mean: Any, variance: Any, share: float) -> Tensor:
    """(predictions, outputs) the number below which this share of the forecast's probability lies.

    Args:
        mean: (predictions,), (predictions, outputs), or (runs, predictions, outputs) for a mixture.
        variance: of the same shape or one that broadcasts; not negative.
        share: between 0 and 1; 0.5 for the median.

    Example:
        >>> round(quantile([[[-1.0]], [[1.0]]], [[[1.0]], [[1.0]]], 0.9).item(), 3)  # halfway between two Gaussians
        1.849
    """
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, for instance 0.5, got {share}")
    middle = _runs("mean", mean)
    return _quantile(middle, _spread(variance, middle), share)


def central_interval(mean: Any, variance: Any, level: float = 0.9) -> tuple[Tensor, Tensor]:
    """Bounds that leave (1 - level) / 2 of the forecast's probability on either side: two (predictions, outputs).

    Args:
        mean: (predictions,), (predictions, outputs), or (runs, predictions, outputs) for a mixture.
        variance: of the same shape or one that broadcasts; not negative.
        level: between 0 and 1.

    Example:
        >>> low, high = central_interval([0.0], [4.0], level=0.95)
        >>> round(low.item(), 2), round(high.item(), 2)
        (-3.92, 3.92)
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, for instance 0.9, got {level}")
    middle = _runs("mean", mean)
    spread = _spread(variance, middle)
    tail = (1 - level) / 2
    return _quantile(middle, spread, tail), _quantile(middle, spread, 1 - tail)


def interval_coverage(
    mean: Any, variance: Any, targets: Any, levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95)
) -> IntervalCoverage:
    """Share of targets inside the central intervals of the given levels, bounds included, and the mean width.

    Args:
        mean: (predictions,), (predictions, outputs), or (runs, predictions, outputs) for a mixture.
        variance: of the same shape or one that broadcasts; not negative.
        targets: (predictions,) or (predictions, outputs).
        levels: probabilities between 0 and 1.

    Example:
        >>> answer = interval_coverage([0.0, 0.0], [1.0, 1.0], [0.5, 1.5], levels=[0.5, 0.9])
        >>> answer.coverage.tolist(), [round(w, 2) for w in answer.width.tolist()]
        ([0.5, 1.0], [1.35, 3.29])
    """
    middle, spread, y = check_forecast(mean, variance, targets)
    if len(levels) == 0:
        raise ValueError("levels must name at least one probability, for instance [0.9]")
    bounds = [central_interval(middle, spread, level) for level in levels]
    return IntervalCoverage(
        level=torch.tensor(levels, dtype=torch.float64, device=y.device),
        coverage=torch.stack([((low <= y) & (y <= high)).to(torch.float64).mean() for low, high in bounds]),
        width=torch.stack([(high - low).mean() for low, high in bounds]),
    )


def pit_values(mean: Any, variance: Any, targets: Any) -> Tensor:
    """Probability integral transform F(target), (predictions, outputs): uniform for a calibrated forecast.

    Where the variance is 0 a target on the mean counts half.

    Args:
        mean: (predictions,), (predictions, outputs), or (runs, predictions, outputs) for a mixture.
        variance: of the same shape or one that broadcasts; not negative.
        targets: (predictions,) or (predictions, outputs).

    Example:
        >>> [round(v, 3) for v in pit_values([0.0, 0.0], [1.0, 4.0], [0.0, 2.0])[:, 0].tolist()]
        [0.5, 0.841]
    """
    middle, spread, y = check_forecast(mean, variance, targets)
    return _cdf(middle, spread, y)


def pit_histogram(values: Any, bins: int = 10) -> PITHistogram:
    """Count PIT values in bins of equal width.

    Args:
        values: any shape, from :func:`pit_values`.
        bins: number of bins.

    Example:
        >>> pit_histogram([0.0, 0.1, 0.6, 1.0], bins=2).density.tolist()
        [1.0, 1.0]
    """
    v = as_numbers("values", values).to(torch.float64).flatten()
    if len(v) == 0 or not bool(((v >= 0) & (v <= 1)).all()):
        raise ValueError("values must be probabilities in [0, 1] and not empty; get them from pit_values")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    edges = torch.arange(bins + 1, dtype=torch.float64, device=v.device) / bins
    count = torch.bincount((torch.bucketize(v, edges) - 1).clamp_min(0), minlength=bins)
    return PITHistogram(edges, count, count * (bins / len(v)))


def _runs(name: str, value: Any) -> Tensor:
    """(runs, predictions, outputs) in float64; one run where there is no such dimension."""
    x = as_numbers(name, value)
    if x.dim() not in (1, 2, 3) or x.numel() == 0:
        raise ValueError(
            f"{name} must be (predictions,), (predictions, outputs) or (runs, predictions, outputs), not empty, got "
            f"shape {tuple(x.shape)}"
        )
    if not bool(x.isfinite().all()):
        raise ValueError(f"{name} holds NaN or infinity; leave such predictions out")
    x = x.to(torch.float64)
    return x[None, :, None] if x.dim() == 1 else x[None] if x.dim() == 2 else x


def _spread(variance: Any, mean: Tensor) -> Tensor:
    v = as_numbers("variance", variance).to(mean)
    if v.dim() == 1:
        v = v[:, None]
    try:
        v = v.expand_as(mean)
    except RuntimeError as error:
        raise ValueError(
            f"variance must have the shape of mean, {tuple(mean.shape)} with runs in front, or one that broadcasts to "
            f"it, got {tuple(v.shape)}"
        ) from error
    if not bool((v >= 0).all()) or not bool(v.isfinite().all()):
        raise ValueError("variance must be finite and not negative; square standard deviations first")
    return v


def check_mean(mean: Any, targets: Any) -> tuple[Tensor, Tensor]:
    """Return the mean as (runs, predictions, outputs) and targets without runs, in float64, once checked."""
    middle = _runs("mean", mean)
    y = as_numbers("targets", targets).to(middle)
    if y.dim() == 1 and middle.shape[2] == 1:
        y = y[:, None]
    if y.shape != middle.shape[1:]:
        raise ValueError(
            f"targets must have shape {tuple(middle.shape[1:])}, one for each output, got {tuple(y.shape)}"
        )
    if not bool(y.isfinite().all()):
        raise ValueError("targets hold NaN or infinity; leave such predictions out")
    return middle, y


def check_forecast(mean: Any, variance: Any, targets: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and variance as (runs, predictions, outputs) and targets without runs, in float64, once checked."""
    middle, y = check_mean(mean, targets)
    return middle, _spread(variance, middle), y


def _distance(shift: Tensor, variance: Tensor) -> Tensor:
    """E |shift + √variance Z| for a standard Gaussian Z; |shift| where the variance is 0."""
    deviation = variance.sqrt()
    z = torch.where(deviation > 0, shift / deviation, torch.zeros_like(shift))
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    smooth = shift * torch.erf(z / math.sqrt(2)) + 2 * deviation * density
    return torch.where(deviation > 0, smooth, shift.abs())


def _cdf(mean: Tensor, variance: Tensor, at: Tensor) -> Tensor:
    """F(at), averaged over runs."""
    shift, deviation = at - mean, variance.sqrt()
    smooth: Tensor = torch.special.ndtr(shift / deviation)
    return torch.where(deviation > 0, smooth, (shift.sign() + 1) / 2).mean(0)


def _quantile(mean: Tensor, variance: Tensor, share: float) -> Tensor:
    """F⁻¹(share): in closed form for one run, by halving for a mixture, between the quantiles of its parts."""
    parts: Tensor = mean + variance.sqrt() * torch.special.ndtri(torch.tensor(share, dtype=torch.float64)).to(mean)
    low, high = parts.amin(0), parts.amax(0)
    if len(mean) == 1:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = _cdf(mean, variance, middle) < share
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2
