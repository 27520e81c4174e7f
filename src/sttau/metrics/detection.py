"""OOD detection: how well a score separates in-distribution from OOD input (Hendrycks & Gimpel, 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sttau.metrics.inputs import DETECTION, check_scores
from sttau.metrics.record import Metric, PerExample, Weighted
from sttau.metrics.sorting import SortedGroups, increments


@dataclass(frozen=True)
class Detection:
    """How well scores separate; fractions. OOD is the positive class unless the name says ``in``.

    Attributes:
        auroc: Probability that an OOD score is larger than an in-distribution score, ties counted half; 0.5 by chance,
            and the same for either choice of the positive class.
        aupr: Average precision; the fraction of OOD input by chance.
        aupr_in: Average precision with in-distribution as the positive class, by low scores; the fraction of
            in-distribution input by chance.
        fpr95: Fraction of in-distribution input flagged by the highest threshold that flags at least 95 % of OOD input
            (flagged: score ≥ threshold).
        fpr95_in: Fraction of OOD input accepted by the lowest threshold that accepts at least 95 % of in-distribution
            input (accepted: score ≤ threshold). In much of the literature, this is "FPR at 95 % TPR".
    """

    auroc: float
    aupr: float
    aupr_in: float
    fpr95: float
    fpr95_in: float


def detection(in_distribution: Any, ood: Any) -> Detection:
    """Evaluate a score that should be larger on OOD input.

    Args:
        in_distribution: (n,) scores of in-distribution sequences, for instance ``max_probability_score(prediction)``.
        ood: (m,) scores of OOD sequences.

    Example:
        >>> found = detection([0.1, 0.2, 0.6], [0.5, 0.9])
        >>> round(found.auroc, 4), round(found.aupr, 4), round(found.fpr95, 4)
        (0.8333, 0.8333, 0.3333)
    """
    low, high = _check(in_distribution, ood)
    return Detection(
        auroc=auroc(low, high),
        aupr=aupr(low, high),
        aupr_in=_average_precision(-high, -low),
        fpr95=_false_positives(high, low),
        fpr95_in=_false_positives(-low, -high),
    )


def auroc(in_distribution: Any, ood: Any) -> float:
    """Area under the ROC curve: the probability that an OOD score is larger, ties counted half.

    Args:
        in_distribution: (n,) scores of in-distribution sequences.
        ood: (m,) scores of OOD sequences.

    Example:
        >>> round(auroc([0.1, 0.2, 0.6], [0.5, 0.9]), 4)
        0.8333
    """
    from sklearn.metrics import roc_auc_score

    low, high = _check(in_distribution, ood)
    return float(roc_auc_score(*_labeled(low, high)))


def aupr(in_distribution: Any, ood: Any) -> float:
    """Area under the precision-recall curve (average precision), with OOD as the positive class.

    Args:
        in_distribution: (n,) scores of in-distribution sequences.
        ood: (m,) scores of OOD sequences.

    Example:
        >>> round(aupr([0.1, 0.2, 0.6], [0.5, 0.9]), 4)
        0.8333
    """
    return _average_precision(*_check(in_distribution, ood))


def _check(in_distribution: Any, ood: Any) -> tuple[Tensor, Tensor]:
    return check_scores("in_distribution", in_distribution).cpu(), check_scores("ood", ood).cpu()


def _labeled(negative: Tensor, positive: Tensor) -> tuple[Any, Any]:
    labels = torch.cat([torch.zeros(len(negative)), torch.ones(len(positive))])
    return labels.numpy(), torch.cat([negative, positive]).numpy()


def _average_precision(negative: Tensor, positive: Tensor) -> float:
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(*_labeled(negative, positive)))


def _false_positives(positive: Tensor, negative: Tensor) -> float:
    """Fraction of negatives at or above the highest threshold that at least 95 % of positives reach."""
    needed = -(-19 * len(positive) // 20)  # ⌈0.95 n⌉ in integers
    threshold = positive.sort(descending=True).values[needed - 1]
    return float((negative >= threshold).to(torch.float64).mean())


# -- weighted rows -----------------------------------------------------------------------------------------------------


def _rows(in_distribution: Tensor, ood: Tensor) -> Tensor:
    """Return (sequences, 2): the score, and 1 for an OOD sequence."""
    scores = torch.cat([in_distribution, ood]).to(torch.float64)
    return torch.stack([scores, torch.arange(len(scores)).ge(len(in_distribution)).double()], -1)


def _weighted_auroc(rows: Tensor) -> Weighted:
    groups, is_ood = SortedGroups.by(rows[:, 0]), rows[:, 1]

    def value(weights: Tensor) -> Tensor:
        negative, positive = groups.cumulate(weights * (1 - is_ood)), increments(groups.cumulate(weights * is_ood))
        below = negative - increments(negative) / 2  # ties count half
        return (below * positive).sum(1) / (negative[:, -1] * positive.sum(1))

    return value


def _weighted_aupr(rows: Tensor) -> Weighted:
    groups, is_ood = SortedGroups.by(-rows[:, 0]), rows[:, 1]

    def value(weights: Tensor) -> Tensor:
        flagged, found = groups.cumulate(weights), groups.cumulate(weights * is_ood)
        return (found / flagged.clamp_min(1) * increments(found)).sum(1) / found[:, -1]

    return value


AUROC = Metric(
    name="auroc",
    function=auroc,
    inputs=DETECTION,
    title="OOD AUROC",
    direction="max",
    digits=1,
    percent=True,
    per_example=PerExample("detection", _rows, _weighted_auroc),
)

AUPR = Metric(
    name="aupr",
    function=aupr,
    inputs=DETECTION,
    title="OOD AUPR",
    direction="max",
    digits=1,
    percent=True,
    per_example=PerExample("detection", _rows, _weighted_aupr),
)

DETECTION_METRICS = Metric(
    name="detection",
    function=detection,
    inputs=DETECTION,
    title="OOD detection",
    class_name="Detection",
)

METRICS = (AUROC, AUPR, DETECTION_METRICS)
