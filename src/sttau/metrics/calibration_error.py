"""Calibration of class probabilities: reliability curve, ECE, MCE, adaptive and classwise ECE.

See the paper's Appendix B and Guo et al. (2017). Values are fractions, not percent. Probabilities are
(predictions, classes), for a Monte Carlo prediction the mean over samples; labels are (predictions,).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from sttau.checks import as_integer
from sttau.metrics.inputs import CLASSIFICATION, check_classification
from sttau.metrics.record import Metric, PerExample, Weighted

Binning = Literal["width", "mass"]
Norm = Literal["expected", "maximum"]

_BINS = 10  # in tables


@dataclass(frozen=True)
class ReliabilityCurve:
    """Predictions in bins of confidence.

    Attributes:
        edges: (bins + 1,) from 0 to 1, of equal width or of equal mass. A bin includes its upper edge and excludes its
            lower edge; a confidence of exactly 0 belongs to the first bin.
        confidence: (bins,) mean confidence in each bin, NaN if a bin is empty.
        accuracy: (bins,) fraction of correct predictions in each bin, NaN if a bin is empty.
        count: (bins,) number of predictions in each bin.
    """

    edges: Tensor
    confidence: Tensor
    accuracy: Tensor
    count: Tensor


def reliability_curve(probabilities: Any, labels: Any, bins: int = 10, binning: Binning = "width") -> ReliabilityCurve:
    """Group predictions into bins by the confidence of the predicted class.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: Number of bins.
        binning: ``width`` for bins of equal width (as in the paper), ``mass`` for bins with equal numbers of
            predictions: the i-th edge is the confidence of rank ⌈i · predictions / bins⌉. Equal confidences always
            share a bin, so ties make bins uneven or empty, and the order of the predictions does not matter.

    Example:
        >>> curve = reliability_curve([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]], [0, 1, 1], bins=2)
        >>> curve.count.tolist(), round(curve.accuracy[1].item(), 3)
        ([0, 3], 0.667)
        >>> reliability_curve([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]], [0, 1, 1], bins=3, binning="mass").count.tolist()
        [1, 1, 1]
    """
    p, y = check_classification(probabilities, labels)
    confidence, predicted = p.max(dim=-1)
    return _curve(confidence, predicted == y, bins, binning)


def calibration_error(
    probabilities: Any, labels: Any, bins: int = 10, norm: Norm = "expected", binning: Binning = "width"
) -> float:
    """Mean (ECE) or maximum (MCE) over bins of the gap between confidence and accuracy.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: Number of bins; see :class:`ReliabilityCurve` for their edges.
        norm: ``expected`` weights bins by their count, ``maximum`` takes the largest gap of a bin that is not empty.
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
    """Mean over classes of the ECE of "is the label this class?" (Kull et al., 2019).

    It takes all probabilities into account, not only those of the predicted classes.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: Number of bins over the probability of a class, with edges as in :class:`ReliabilityCurve`.
        binning: ``width`` or ``mass``; see :func:`reliability_curve`.

    Example:
        >>> round(classwise_calibration_error([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]], [0, 1, 1]), 4)
        0.4167
    """
    p, y = check_classification(probabilities, labels)
    errors = []
    for k in range(p.shape[1]):
        gap, share = _gaps(_curve(p[:, k], y == k, bins, binning))
        errors.append(float(gap @ share))
    return sum(errors) / len(errors)


def bin_edges(values: Tensor, bins: int, binning: str) -> Tensor:
    """Return (bins + 1,) edges from 0 to 1."""
    bins = as_integer("bins", bins, 1)
    if binning == "width":
        return torch.arange(bins + 1, dtype=torch.float64, device=values.device) / bins
    if binning != "mass":
        raise ValueError(f"binning must be 'width' or 'mass', got {binning!r}")
    rank = (torch.arange(1, bins, device=values.device) * len(values) + bins - 1) // bins  # ⌈i n / bins⌉, from 1
    inner = values.sort().values[rank - 1].to(torch.float64)
    return torch.cat([inner.new_zeros(1), inner, inner.new_ones(1)])


def assign_bins(values: Tensor, edges: Tensor) -> Tensor:
    """Return the index of the bin of each value; a bin includes its upper edge."""
    edges = edges.to(values.dtype)  # float32 0.8 meets float32 edge 0.8
    return (torch.bucketize(values.contiguous(), edges) - 1).clamp(0, len(edges) - 2)


def binned_errors(number: Tensor, gap: Tensor, bins: int) -> Tensor:
    """Return (2, draws) ECE and MCE from (draws, predictions) bin indices and differences, outcome - confidence."""
    apart = torch.zeros(len(gap), bins, dtype=torch.float64).scatter_add_(1, number, gap).abs()
    count = torch.zeros_like(apart).scatter_add_(1, number, torch.ones_like(gap))
    return torch.stack([apart.sum(1) / gap.shape[1], (apart / count.clamp_min(1)).amax(1)])


def _curve(probability: Tensor, happened: Tensor, bins: int, binning: str) -> ReliabilityCurve:
    edges = bin_edges(probability, bins, binning)
    number = assign_bins(probability, edges)

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
    """Return |accuracy - confidence| of the bins that are not empty, and the fraction of predictions in each."""
    filled = curve.count > 0
    gap = (curve.accuracy - curve.confidence)[filled].abs()
    return gap, curve.count[filled] / curve.count.sum().to(torch.float64)


# -- weighted rows -----------------------------------------------------------------------------------------------------


def _rows(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return (predictions, 2): the index of the bin, and outcome - confidence."""
    confidence, predicted = probabilities.max(dim=-1)
    right = (predicted == labels).to(torch.float64)
    rows = torch.stack([assign_bins(confidence, bin_edges(confidence, _BINS, "width")).double(), right], -1)
    rows[:, 1] -= confidence
    return rows


def _weighted_gaps(rows: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """(rounds, bins) |accuracy - confidence| · count, and count."""
    inside = torch.nn.functional.one_hot(rows[:, 0].long(), _BINS).to(torch.float64)
    gaps = inside * rows[:, 1:]
    return lambda weights: ((weights @ gaps).abs(), weights @ inside)


def _weighted_expected(rows: Tensor) -> Weighted:
    gaps = _weighted_gaps(rows)
    return lambda weights: gaps(weights)[0].sum(1) / weights.sum(1)


def _weighted_maximum(rows: Tensor) -> Weighted:
    gaps = _weighted_gaps(rows)

    def value(weights: Tensor) -> Tensor:
        gap, count = gaps(weights)
        return (gap / count.clamp_min(1)).amax(1)

    return value


EXPECTED_CALIBRATION_ERROR = Metric(
    name="ece",
    function=calibration_error,
    inputs=CLASSIFICATION,
    title="ECE",
    direction="min",
    digits=2,
    percent=True,
    class_name="CalibrationError",
    per_example=PerExample("classification", _rows, _weighted_expected),
)

MAXIMUM_CALIBRATION_ERROR = Metric(
    name="mce",
    function=partial(calibration_error, norm="maximum"),
    inputs=CLASSIFICATION,
    title="MCE",
    direction="min",
    digits=1,
    percent=True,
    per_example=PerExample("classification", _rows, _weighted_maximum),
)

CLASSWISE_CALIBRATION_ERROR = Metric(
    name="classwise_ece",
    function=classwise_calibration_error,
    inputs=CLASSIFICATION,
    title="classwise ECE",
    direction="min",
    digits=2,
    percent=True,
    class_name="ClasswiseCalibrationError",
)

RELIABILITY_CURVE = Metric(
    name="reliability_curve",
    function=reliability_curve,
    inputs=CLASSIFICATION,
    title="reliability curve",
    class_name="ReliabilityCurve",
)

METRICS = (
    EXPECTED_CALIBRATION_ERROR,
    MAXIMUM_CALIBRATION_ERROR,
    CLASSWISE_CALIBRATION_ERROR,
    RELIABILITY_CURVE,
)
