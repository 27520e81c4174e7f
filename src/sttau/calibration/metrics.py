"""How far probabilities are from what happens (paper, Appendix B; Guo et al., 2017). Fractions, not percent.

All functions take (predictions, classes) probabilities, the mean over runs for a Monte-Carlo prediction, and
(predictions,) labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sttau.checks import as_tensor, check_labels, check_probabilities

Binning = Literal["width", "mass"]
Norm = Literal["expected", "maximum"]


@dataclass(frozen=True)
class ReliabilityCurve:
    """Predictions sorted into bins by their confidence.

    Attributes:
        edges: (bins + 1,) from 0 to 1, of equal width or of equal mass. A bin holds its upper edge and not its lower
            one; a confidence of exactly 0 belongs to the first bin.
        confidence: (bins,) mean confidence in each bin, NaN where a bin is empty.
        accuracy: (bins,) share of right predictions in each bin, NaN where a bin is empty.
        count: (bins,) predictions in each bin.
    """

    edges: Tensor
    confidence: Tensor
    accuracy: Tensor
    count: Tensor


@dataclass(frozen=True)
class BrierDecomposition:
    """The Brier score as a sum; see :func:`decompose_brier`.

    Attributes:
        reliability: squared distance of forecast and frequency, group by group; 0 is calibrated.
        resolution: squared distance of the groups' frequencies from the overall one; large is informative.
        uncertainty: what the labels hold by themselves, 1 - Σ_k (overall frequency of k)².
        within_variance: of the forecasts inside groups.
        within_covariance: twice that of forecasts and outcomes inside groups.
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


def reliability_curve(probabilities: Any, labels: Any, bins: int = 10, binning: Binning = "width") -> ReliabilityCurve:
    """Sort predictions into bins by the confidence of the predicted class.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: number of bins.
        binning: ``width`` for bins of equal width (the paper's), ``mass`` for bins that hold equally many predictions:
            the i-th edge is the confidence of rank ⌈i · predictions / bins⌉. Equal confidences always share a bin, so
            ties make bins uneven, or empty, but the order of the predictions never matters.

    Example:
        >>> curve = reliability_curve([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]], [0, 1, 1], bins=2)
        >>> curve.count.tolist(), round(curve.accuracy[1].item(), 3)
        ([0, 3], 0.667)
        >>> reliability_curve([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]], [0, 1, 1], bins=3, binning="mass").count.tolist()
        [1, 1, 1]
    """
    p, y = _checked(probabilities, labels)
    confidence, predicted = p.max(dim=-1)
    return _curve(confidence, predicted == y, bins, binning)


def calibration_error(
    probabilities: Any, labels: Any, bins: int = 10, norm: Norm = "expected", binning: Binning = "width"
) -> float:
    """Gap between confidence and accuracy over bins: its mean (ECE) or its largest value (MCE).

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: number of bins; see :class:`ReliabilityCurve` for their edges.
        norm: ``expected`` weighs bins by their count, ``maximum`` takes the worst bin that holds a prediction.
        binning: ``width``, or ``mass`` for the adaptive ECE (Nguyen & O'Connor, 2015); see :func:`reliability_curve`.

    Example:
        >>> round(calibration_error([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]], [0, 1, 1]), 4)
        0.4167
    """
    if norm not in ("expected", "maximum"):
        raise ValueError(f"norm must be 'expected' or 'maximum', got {norm!r}")
    gap, share = _gaps(reliability_curve(probabilities, labels, bins, binning))
    return float(gap.max() if norm == "maximum" else gap @ share)


def classwise_calibration_error(probabilities: Any, labels: Any, bins: int = 10, binning: Binning = "width") -> float:
    """Mean over classes of the ECE of "is it this class?" (Kull et al., 2019).

    It looks at all probabilities, not only at those of the predicted classes.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: number of bins over the probability of a class, with edges as in :class:`ReliabilityCurve`.
        binning: ``width`` or ``mass``; see :func:`reliability_curve`.

    Example:
        >>> round(classwise_calibration_error([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]], [0, 1, 1]), 4)
        0.4167
    """
    p, y = _checked(probabilities, labels)
    errors = []
    for k in range(p.shape[1]):
        gap, share = _gaps(_curve(p[:, k], y == k, bins, binning))
        errors.append(float(gap @ share))
    return sum(errors) / len(errors)


def prediction_error(probabilities: Any, labels: Any) -> float:
    """Share of wrong predictions.

    Example:
        >>> prediction_error([[0.9, 0.1], [0.8, 0.2]], [0, 1])
        0.5
    """
    p, y = _checked(probabilities, labels)
    return float((p.argmax(dim=-1) != y).to(torch.float64).mean())


def negative_log_likelihood(probabilities: Any, labels: Any) -> float:
    """Mean of -log p(true class), in nats; infinite where a true class has probability 0.

    Example:
        >>> round(negative_log_likelihood([[0.5, 0.5], [0.75, 0.25]], [0, 1]), 4)
        1.0397
    """
    p, y = _checked(probabilities, labels)
    return float(-p.gather(1, y[:, None]).to(torch.float64).log().mean())


def brier_score(probabilities: Any, labels: Any) -> float:
    """Mean of Σ_k (p_k - [label = k])² over predictions (Brier, 1950).

    From 0, sure and right, to 2, sure and wrong. With two classes some call half of it the Brier score.

    Example:
        >>> round(brier_score([[0.9, 0.1], [0.8, 0.2]], [0, 1]), 4)
        0.65
    """
    p, y = _checked(probabilities, labels)
    return float((p.to(torch.float64) - _outcomes(y, p.shape[1])).square().sum(-1).mean())


def decompose_brier(probabilities: Any, labels: Any, bins: int | None = 10) -> BrierDecomposition:
    """Split the Brier score into reliability, resolution and uncertainty.

    For groups of *equal* forecasts the score is reliability - resolution + uncertainty exactly (Murphy, 1973). For
    groups of merely similar ones two terms from inside the groups belong to the sum (Stephenson et al., 2008), and
    with them it is exact for every grouping; so ``.brier`` always equals :func:`brier_score`, up to rounding.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: group predictions of the same class whose confidence lies in the same of so many bins of equal width.
            None groups equal rows of probabilities: there both inner terms are 0, but where no two forecasts are
            equal reliability is all of the score, and resolution all of the uncertainty.

    Example:
        >>> parts = decompose_brier([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]], [0, 1, 1], bins=None)
        >>> round(parts.reliability, 4), round(parts.resolution, 4), round(parts.uncertainty, 4), round(parts.brier, 4)
        (0.32, 0.1111, 0.4444, 0.6533)
    """
    p, y = _checked(probabilities, labels)
    if bins is None:
        group = torch.unique(p, dim=0, return_inverse=True)[1]
    else:
        confidence, predicted = p.max(dim=-1)
        number = sort_into(confidence, bin_edges(confidence, bins, "width"))
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
    apart = p - forecast[group]
    return BrierDecomposition(
        reliability=float((count * (forecast - frequency).square()).sum() / size),
        resolution=float((count * (frequency - overall).square()).sum() / size),
        uncertainty=float(1 - overall.square().sum()),
        within_variance=float(apart.square().sum() / size),
        within_covariance=float(2 * (apart * (outcome - frequency[group])).sum() / size),
    )


def _checked(probabilities: Any, labels: Any) -> tuple[Tensor, Tensor]:
    p = check_probabilities("probabilities", probabilities)
    return p, check_labels(as_tensor("labels", labels).to(p.device), p.shape[0], p.shape[1])


def _outcomes(labels: Tensor, classes: int) -> Tensor:
    return torch.nn.functional.one_hot(labels, classes).to(torch.float64)


def bin_edges(values: Tensor, bins: int, binning: str) -> Tensor:
    """(bins + 1,) from 0 to 1."""
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    if binning == "width":
        return torch.arange(bins + 1, dtype=torch.float64, device=values.device) / bins
    if binning != "mass":
        raise ValueError(f"binning must be 'width' or 'mass', got {binning!r}")
    rank = (torch.arange(1, bins, device=values.device) * len(values) + bins - 1) // bins  # ⌈i n / bins⌉, from 1
    inner = values.sort().values[rank - 1].to(torch.float64)
    return torch.cat([inner.new_zeros(1), inner, inner.new_ones(1)])


def sort_into(values: Tensor, edges: Tensor) -> Tensor:
    """The number of the bin of each value, which holds its upper edge."""
    edges = edges.to(values.dtype)  # float32 0.8 meets float32 edge 0.8
    return (torch.bucketize(values.contiguous(), edges) - 1).clamp(0, len(edges) - 2)


def _curve(probability: Tensor, happened: Tensor, bins: int, binning: str) -> ReliabilityCurve:
    edges = bin_edges(probability, bins, binning)
    number = sort_into(probability, edges)

    def total(values: Tensor) -> Tensor:
        return torch.zeros(bins, dtype=torch.float64, device=values.device).index_add(0, number, values)

    probability = probability.to(torch.float64)
    count = total(torch.ones_like(probability))
    return ReliabilityCurve(
        edges=edges,
        confidence=total(probability) / count,
        accuracy=total(happened.to(torch.float64)) / count,
        count=count.to(torch.int64),
    )


def _gaps(curve: ReliabilityCurve) -> tuple[Tensor, Tensor]:
    """|accuracy - confidence| of the bins that hold a prediction, and their share of all."""
    filled = curve.count > 0
    gap = (curve.accuracy - curve.confidence)[filled].abs()
    return gap, curve.count[filled] / curve.count.sum().to(torch.float64)
