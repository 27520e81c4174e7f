"""Checked inputs of metrics, and how batches of them are accumulated.

A forecast is a mean and a variance per target, (predictions,) or (predictions, outputs). With a leading dimension,
(samples, predictions, outputs), it is a mixture of equally probable Gaussians, which is what a Monte Carlo prediction
is; the variance may then lack that dimension. For the result ``r`` of ``predict``:

- ``r.mean, r.variance``: one Gaussian with the prediction's mean and total variance;
- ``r.samples, r.sample_variance``: the mixture over samples, available with ``keep_samples=True``.

Metrics of forecasts average over predictions and outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_numbers, as_tensor, check_labels, check_probabilities


@dataclass(frozen=True)
class Inputs:
    """The inputs of a metric.

    Attributes:
        states: Names under which the checked tensors of a batch are accumulated.
        check: Function that checks a batch and returns one tensor per state, predictions in the first dimension.
        example: Arguments of ``check``, as source text, for examples in docstrings.
        arguments: Function that turns the concatenated states into the arguments of the metric's function.
    """

    states: tuple[str, ...]
    check: Callable[..., tuple[Tensor, ...]]
    example: str
    arguments: Callable[..., tuple[Tensor, ...]] = lambda *states: states


def check_classification(probabilities: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Return (predictions, classes) probabilities and (predictions,) labels after checking them."""
    p = check_probabilities("probabilities", probabilities)
    return p, check_labels(as_tensor("labels", labels).to(p.device), p.shape[0], p.shape[1])


def check_mean(mean: Any, targets: Any) -> tuple[Tensor, Tensor]:
    """Return the mean as (samples, predictions, outputs) and targets as (predictions, outputs), in float64."""
    middle = with_samples("mean", mean)
    y = as_numbers("targets", targets).to(middle)
    if y.dim() == 1 and middle.shape[2] == 1:
        y = y[:, None]
    if y.shape != middle.shape[1:]:
        raise ValueError(
            f"targets must have shape {tuple(middle.shape[1:])}, one per prediction and output, got {tuple(y.shape)}"
        )
    if not bool(y.isfinite().all()):
        raise ValueError("targets hold NaN or infinity; remove such predictions")
    return middle, y


def check_forecast(mean: Any, variance: Any, targets: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and variance as (samples, predictions, outputs) and targets without samples, in float64."""
    middle, y = check_mean(mean, targets)
    return middle, check_variance(variance, middle), y


def check_samples(samples: Any, targets: Any) -> tuple[Tensor, Tensor]:
    """Return (samples, predictions, outputs) and targets as (predictions, outputs), in float64."""
    x = as_numbers("samples", samples)
    if x.dim() not in (2, 3):
        raise ValueError(
            f"samples must be (samples, predictions) or (samples, predictions, outputs), got {tuple(x.shape)}"
        )
    return check_mean(x if x.dim() == 3 else x[..., None], targets)


def check_variance(variance: Any, mean: Tensor) -> Tensor:
    """Return the variance in the shape of a mean with samples."""
    v = as_numbers("variance", variance).to(mean)
    if v.dim() == 1:
        v = v[:, None]
    try:
        v = v.expand_as(mean)
    except RuntimeError as error:
        raise ValueError(
            f"variance must have the shape of mean, {tuple(mean.shape)} with samples first, or broadcast to it, got "
            f"{tuple(v.shape)}"
        ) from error
    if not bool((v >= 0).all()) or not bool(v.isfinite().all()):
        raise ValueError("variance must be finite and not negative; square standard deviations first")
    return v


def with_samples(name: str, value: Any) -> Tensor:
    """Return (samples, predictions, outputs) in float64; one sample if there is no such dimension."""
    x = as_numbers(name, value)
    if x.dim() not in (1, 2, 3) or x.numel() == 0:
        raise ValueError(
            f"{name} must be (predictions,), (predictions, outputs) or (samples, predictions, outputs), not empty, got "
            f"shape {tuple(x.shape)}"
        )
    if not bool(x.isfinite().all()):
        raise ValueError(f"{name} holds NaN or infinity; remove such predictions")
    x = x.to(torch.float64)
    return x[None, :, None] if x.dim() == 1 else x[None] if x.dim() == 2 else x


def check_scores(name: str, values: Any) -> Tensor:
    """Return (n,) scores in float64 after checking that there is at least one and that all are finite."""
    scores = as_numbers(name, values).detach().to(torch.float64)
    if scores.dim() != 1 or len(scores) == 0:
        raise ValueError(f"{name} must be a list of scores, not empty, got shape {tuple(scores.shape)}")
    if not bool(scores.isfinite().all()):
        raise ValueError(f"{name} holds NaN or infinity; every sequence needs a finite score")
    return scores


def check_losses(uncertainty: Any, losses: Any) -> tuple[Tensor, Tensor]:
    """Return both as (n,) float64 after checking that they have the same length."""
    doubt, loss = check_scores("uncertainty", uncertainty), check_scores("losses", losses)
    if len(doubt) != len(loss):
        raise ValueError(f"uncertainty and losses must have the same length, got {len(doubt)} and {len(loss)}")
    return doubt, loss.to(doubt.device)


def _classification(probabilities: Any, labels: Any) -> tuple[Tensor, ...]:
    """Add (predictions, classes) probabilities and (predictions,) labels."""
    return check_classification(probabilities, labels)


def _mean(mean: Any, targets: Any) -> tuple[Tensor, ...]:
    """Add predicted means, with or without a leading dimension of samples, and their targets."""
    middle, y = check_mean(mean, targets)
    return middle.mean(0), y


def _samples(samples: Any, targets: Any) -> tuple[Tensor, ...]:
    """Add (samples, predictions) or (samples, predictions, outputs) samples and their targets."""
    x, y = check_samples(samples, targets)
    return x.transpose(0, 1), y


def _forecast(mean: Any, variance: Any, targets: Any) -> tuple[Tensor, ...]:
    """Add forecasts, with or without a leading dimension of samples, and their targets."""
    middle, variance, y = check_forecast(mean, variance, targets)
    return middle.transpose(0, 1), variance.transpose(0, 1), y


def _detection(scores: Any, is_ood: Any) -> tuple[Tensor, ...]:
    """Add (n,) scores, larger for OOD input, and (n,) booleans, True for OOD input."""
    s, flags = check_scores("scores", scores), as_tensor("is_ood", is_ood)
    if flags.dtype != torch.bool or flags.shape != s.shape:
        raise ValueError(
            f"is_ood must be True or False for each of {len(s)} scores, got {flags.dtype} {tuple(flags.shape)}"
        )
    return s, flags.to(s.device)


def _selection(uncertainty: Any, losses: Any) -> tuple[Tensor, ...]:
    """Add (n,) uncertainties and (n,) losses."""
    return check_losses(uncertainty, losses)


CLASSIFICATION = Inputs(("probabilities", "labels"), _classification, "[[0.9, 0.1], [0.8, 0.2]], [0, 1]")
MEAN = Inputs(("mean", "targets"), _mean, "[1.0, 2.0], [1.0, 4.0]")
SAMPLES = Inputs(("samples", "targets"), _samples, "[[0.0], [2.0]], [1.0]", lambda x, y: (x.transpose(0, 1), y))
FORECAST = Inputs(
    ("mean", "variance", "targets"),
    _forecast,
    "[0.0, 0.0], [1.0, 1.0], [0.5, 1.5]",
    lambda mean, variance, y: (mean.transpose(0, 1), variance.transpose(0, 1), y),
)
DETECTION = Inputs(
    ("scores", "is_ood"),
    _detection,
    "[0.1, 0.2, 0.6, 0.5, 0.9], [False, False, False, True, True]",
    lambda scores, is_ood: (scores[~is_ood], scores[is_ood]),
)
SELECTION = Inputs(("uncertainty", "losses"), _selection, "[0.1, 0.9], [0, 1]")
