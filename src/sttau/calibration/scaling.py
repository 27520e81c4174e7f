"""Recalibrate the probabilities of a trained model with a few parameters fitted on validation data (Guo et al., 2017).

Logits are (predictions, classes), or (samples, predictions, classes) for a Monte Carlo prediction. In the latter case
each sample is scaled, its softmax is taken, and the probabilities are averaged; the fit maximizes the likelihood of
that average. Averaging first, or fitting the samples separately, would calibrate a different predictor.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sttau.checks import as_numbers, as_tensor, check_labels
from sttau.inference import Prediction

if TYPE_CHECKING:
    from typing_extensions import Self


class Scaling(ABC):
    """Base class: ``fit`` on validation data, then ``probabilities`` of new data."""

    def fit(self, logits: Any, labels: Any) -> Self:
        """Fit on validation data.

        Args:
            logits: (predictions, classes) or (samples, predictions, classes); see :func:`to_logits`.
            labels: (predictions,) true classes.
        """
        z = check_logits(logits)
        self._fit(z, check_labels(as_tensor("labels", labels).to(z.device), z.shape[1], z.shape[2]))
        return self

    def probabilities(self, logits: Any) -> Tensor:
        """Return (predictions, classes) probabilities in float64, averaged over samples."""
        return self.log_probabilities(logits).exp()

    @abstractmethod
    def log_probabilities(self, logits: Any) -> Tensor:
        """Return (predictions, classes) log probabilities, finite where a probability would round to 0."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the fitted parameters as JSON-compatible values, for :func:`restore_scaling`."""

    @abstractmethod
    def _fit(self, logits: Tensor, labels: Tensor) -> None: ...


def check_logits(logits: Any) -> Tensor:
    """Return (samples, predictions, classes) in float64."""
    if isinstance(logits, Prediction):
        raise TypeError("logits must be a tensor or an array, got a Prediction; pass to_logits(prediction)")
    z = as_numbers("logits", logits).detach()
    if z.dim() not in (2, 3) or z.numel() == 0 or z.shape[-1] < 2:
        raise ValueError(
            "logits must be (predictions, classes) or (samples, predictions, classes), not empty, of at least 2 "
            f"classes, got shape {tuple(z.shape)}"
        )
    if not bool(z.isfinite().all()):
        raise ValueError("logits hold NaN or infinity; use to_logits to take logarithms of probabilities")
    z = z.to(torch.float64)
    return z if z.dim() == 3 else z[None]


def check_classes(logits: Tensor, classes: int) -> None:
    """Raise where the number of classes is not that of the fit."""
    if logits.shape[-1] != classes:
        raise ValueError(f"logits have {logits.shape[-1]} classes, but the scaling was fitted with {classes}")


def average(logits: Tensor) -> Tensor:
    """Return the log of the mean over samples of the softmax."""
    return logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))


def averaged_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log-likelihood of the averaged probability, computed for the labels alone."""
    chosen = logits.log_softmax(-1)[:, torch.arange(len(labels), device=labels.device), labels]
    return math.log(len(logits)) - chosen.logsumexp(0).mean()
