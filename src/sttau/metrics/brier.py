"""The Brier score and its decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sttau.metrics.calibration_error import assign_bins, bin_edges
from sttau.metrics.inputs import CLASSIFICATION, check_classification
from sttau.metrics.record import Metric, PerExample


@dataclass(frozen=True)
class BrierDecomposition:
    """The Brier score as a sum; see :func:`decompose_brier`.

    Attributes:
        reliability: Squared distance between forecast and frequency per group; 0 if calibrated.
        resolution: Squared distance between the frequencies of groups and the overall frequency; large if informative.
        uncertainty: Uncertainty of the labels themselves, 1 - Σ_k (overall frequency of k)².
        within_variance: Variance of the forecasts within groups.
        within_covariance: Twice the covariance of forecasts and outcomes within groups.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within_variance: float
    within_covariance: float

    @property
    def brier(self) -> float:
        """The Brier score: reliability - resolution + uncertainty + within_variance - within_covariance."""
        return self.reliability - self.resolution + self.uncertainty + self.within_variance - self.within_covariance


def brier_score(probabilities: Any, labels: Any) -> float:
    """Mean of Σ_k (p_k - [label = k])² over predictions (Brier, 1950).

    It ranges from 0 (certain and right) to 2 (certain and wrong). For two classes, some authors call half of it the
    Brier score.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.

    Example:
        >>> round(brier_score([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.65
    """
    return float(_terms(*check_classification(probabilities, labels)).mean())


def decompose_brier(probabilities: Any, labels: Any, bins: int | None = 10) -> BrierDecomposition:
    """Decompose the Brier score into reliability, resolution and uncertainty.

    For groups of *equal* forecasts the score is exactly reliability - resolution + uncertainty (Murphy, 1973). For
    groups of similar forecasts, two terms within the groups are part of the sum (Stephenson et al., 2008), which makes
    it exact for every grouping: ``.brier`` always equals :func:`brier_score`, up to rounding.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: Number of confidence bins of equal width; a group consists of predictions of one class in one bin. None
            groups equal rows of probabilities. Both terms within groups are then 0, but if no two forecasts are equal,
            reliability is the whole score and resolution equals uncertainty.

    Example:
        >>> parts = decompose_brier([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]], [0, 1, 1], bins=None)
        >>> round(parts.reliability, 4), round(parts.resolution, 4), round(parts.uncertainty, 4), round(parts.brier, 4)
        (0.32, 0.1111, 0.4444, 0.6533)
    """
    p, y = check_classification(probabilities, labels)
    if bins is None:
        group = torch.unique(p, dim=0, return_inverse=True)[1]
    else:
        confidence, predicted = p.max(dim=-1)
        number = assign_bins(confidence, bin_edges(confidence, bins, "width"))
        group = torch.unique(predicted * bins + number, return_inverse=True)[1]
    p, outcome = p.to(torch.float64), _outcomes(y, p.shape[1])
    count = torch.bincount(group).to(torch.float64)[:, None]

    def mean(rows: Tensor) -> Tensor:
        return (
            torch.zeros(len(count), rows.shape[1], dtype=rows.dtype, device=rows.device).index_add(0, group, rows)
            / count
        )

    forecast, frequency, overall = mean(p), mean(outcome), outcome.mean(0)
    size = len(p)
    deviation = p - forecast[group]
    return BrierDecomposition(
        reliability=float((count * (forecast - frequency).square()).sum() / size),
        resolution=float((count * (frequency - overall).square()).sum() / size),
        uncertainty=float(1 - overall.square().sum()),
        within_variance=float(deviation.square().sum() / size),
        within_covariance=float(2 * (deviation * (outcome - frequency[group])).sum() / size),
    )


def _terms(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return (predictions,) terms whose mean is the Brier score."""
    return (probabilities.to(torch.float64) - _outcomes(labels, probabilities.shape[1])).square().sum(-1)


def _outcomes(labels: Tensor, classes: int) -> Tensor:
    return torch.nn.functional.one_hot(labels, classes).to(torch.float64)


BRIER_SCORE = Metric(
    name="brier",
    function=brier_score,
    inputs=CLASSIFICATION,
    title="Brier",
    direction="min",
    digits=4,
    class_name="BrierScore",
    per_example=PerExample("classification", lambda p, labels: _terms(p, labels)[:, None]),
)

BRIER_DECOMPOSITION = Metric(
    name="brier_decomposition",
    function=decompose_brier,
    inputs=CLASSIFICATION,
    title="Brier decomposition",
    class_name="BrierDecomposition",
)

METRICS = (BRIER_SCORE, BRIER_DECOMPOSITION)
