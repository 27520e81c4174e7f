"""Negative log-likelihood of classes, and of targets under Gaussians and their mixtures."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sttau.metrics.inputs import CLASSIFICATION, FORECAST, check_classification, check_forecast
from sttau.metrics.record import Metric, PerExample


def negative_log_likelihood(probabilities: Any, labels: Any, clip: bool = False) -> float:
    """Mean of -log p(label), in nats.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        clip: Whether a probability of 0 is replaced by the smallest positive normal number of its dtype, so that one
            probability that underflowed does not make the mean infinite. Tables and validation clip.

    Example:
        >>> round(negative_log_likelihood([[0.5, 0.5], [0.75, 0.25]], [0, 1]), 4)
        1.0397
        >>> negative_log_likelihood([[1.0, 0.0]], [1])
        inf
    """
    return float(nll_terms(*check_classification(probabilities, labels), clip=clip).mean())


def nll_terms(probabilities: Tensor, labels: Tensor, clip: bool = False) -> Tensor:
    """Return (predictions, 1) terms whose mean is :func:`negative_log_likelihood`."""
    p = probabilities.gather(1, labels[:, None]).to(torch.float64)
    return -(p.clamp_min(torch.finfo(probabilities.dtype).tiny) if clip else p).log()


def gaussian_nll(mean: Any, variance: Any, targets: Any) -> float:
    """Mean of -log density at the target, in nats, including the constant ½ log 2π.

    Args:
        mean: (predictions,), (predictions, outputs), or (samples, predictions, outputs) for a mixture.
        variance: Positive variance; same shape as the mean, or broadcastable to it.
        targets: (predictions,) or (predictions, outputs).

    Example:
        >>> round(gaussian_nll([0.0], [1.0], [0.0]), 4)
        0.9189
    """
    return float(gaussian_nll_terms(*check_forecast(mean, variance, targets)).mean())


def gaussian_nll_terms(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    """Return (predictions, outputs) terms whose mean is :func:`gaussian_nll`."""
    if not bool((variance > 0).all()):
        raise ValueError("variance must be positive for a density; a model without a variance head predicts 0")
    log_density = -0.5 * ((targets - mean).square() / variance + variance.log() + math.log(2 * math.pi))
    return math.log(len(mean)) - log_density.logsumexp(0)


NEGATIVE_LOG_LIKELIHOOD = Metric(
    name="nll",
    function=negative_log_likelihood,
    inputs=CLASSIFICATION,
    title="NLL",
    direction="min",
    class_name="NegativeLogLikelihood",
    per_example=PerExample("classification", lambda p, labels: nll_terms(p, labels, clip=True)),
)

GAUSSIAN_NLL = Metric(
    name="gaussian_nll",
    key="nll",
    function=gaussian_nll,
    inputs=FORECAST,
    title="NLL",
    direction="min",
    class_name="GaussianNLL",
    per_example=PerExample("regression", lambda *forecast: gaussian_nll_terms(*forecast).mean(-1, keepdim=True)),
)

METRICS = (NEGATIVE_LOG_LIKELIHOOD, GAUSSIAN_NLL)
