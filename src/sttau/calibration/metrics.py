"""How far confidence is from accuracy (paper, Appendix B; Guo et al., 2017). Values are fractions, not percent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sttau.checks import as_tensor, check_labels


@dataclass(frozen=True)
class ReliabilityCurve:
    """Predictions sorted into bins by their confidence.

    Attributes:
        edges: (bins + 1,) of equal width from 0 to 1. A bin holds its upper edge and not its lower one; a confidence of
            exactly 0 belongs to the first bin.
        confidence: (bins,) mean confidence in each bin, NaN where a bin is empty.
        accuracy: (bins,) share of right predictions in each bin, NaN where a bin is empty.
        count: (bins,) predictions in each bin.
    """

    edges: Tensor
    confidence: Tensor
    accuracy: Tensor
    count: Tensor


def reliability_curve(probabilities: Any, labels: Any, bins: int = 10) -> ReliabilityCurve:
    """Sort predictions into bins of equal width by the confidence of the predicted class.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: number of bins.

    Example:
        >>> curve = reliability_curve([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]], [0, 1, 1], bins=2)
        >>> curve.count.tolist(), round(curve.accuracy[1].item(), 3)
        ([0, 3], 0.667)
    """
    p, y = _checked(probabilities, labels)
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    confidence, predicted = p.max(dim=-1)
    edges = torch.arange(bins + 1, dtype=torch.float64, device=p.device) / bins
    number = (torch.bucketize(confidence, edges.to(p.dtype)) - 1).clamp(
        0, bins - 1
    )  # float32 0.8 meets float32 edge 0.8
    confidence = confidence.to(torch.float64)

    def total(values: Tensor) -> Tensor:
        return torch.zeros(bins, dtype=torch.float64, device=p.device).index_add(0, number, values)

    count = total(torch.ones_like(confidence))
    return ReliabilityCurve(
        edges=edges,
        confidence=total(confidence) / count,
        accuracy=total((predicted == y).to(torch.float64)) / count,
        count=count.to(torch.int64),
    )


def calibration_error(
    probabilities: Any, labels: Any, bins: int = 10, norm: Literal["expected", "maximum"] = "expected"
) -> float:
    """Gap between confidence and accuracy over bins: its mean (ECE) or its largest value (MCE).

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: number of bins of equal width; see :class:`ReliabilityCurve` for their edges.
        norm: ``expected`` weighs bins by their count, ``maximum`` takes the worst bin that holds a prediction.

    Example:
        >>> round(calibration_error([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]], [0, 1, 1]), 4)
        0.4167
    """
    if norm not in ("expected", "maximum"):
        raise ValueError(f"norm must be 'expected' or 'maximum', got {norm!r}")
    curve = reliability_curve(probabilities, labels, bins)
    filled = curve.count > 0
    gap = (curve.accuracy - curve.confidence)[filled].abs()
    if norm == "maximum":
        return float(gap.max())
    return float((gap * curve.count[filled]).sum() / curve.count.sum())


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


def _checked(probabilities: Any, labels: Any) -> tuple[Tensor, Tensor]:
    p = as_tensor("probabilities", probabilities)
    if not p.is_floating_point():
        p = p.to(torch.float64)
    if p.dim() != 2 or p.shape[0] == 0 or p.shape[1] < 2:
        raise ValueError(f"probabilities must be (predictions, classes) and not empty, got shape {tuple(p.shape)}")
    if not bool(((p >= 0) & (p <= 1)).all()) or not bool(((p.sum(-1) - 1).abs() < 1e-3).all()):
        raise ValueError("probabilities must lie in [0, 1] and sum to 1 in each row; apply softmax to logits first")
    return p, check_labels(as_tensor("labels", labels).to(p.device), p.shape[0], p.shape[1])
