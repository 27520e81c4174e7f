"""How well a score tells foreign input from familiar input (Hendrycks & Gimpel, 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_numbers


@dataclass(frozen=True)
class Detection:
    """How well scores separate; fractions. Out-of-distribution is the positive class unless the name says ``in``.

    Attributes:
        auroc: probability that a foreign score lies above a familiar one, ties half; 0.5 by chance, and the same
            whichever class is called positive.
        aupr: average precision; the share of foreign input by chance.
        aupr_in: average precision of finding familiar input by low scores; the share of familiar input by chance.
        fpr95: share of familiar input flagged by the highest threshold that flags at least 95 % of foreign input
            (flagged: score ≥ threshold).
        fpr95_in: share of foreign input accepted by the lowest threshold that accepts at least 95 % of familiar input
            (accepted: score ≤ threshold). Much of the literature means this one by "FPR at 95 % TPR".
    """

    auroc: float
    aupr: float
    aupr_in: float
    fpr95: float
    fpr95_in: float


def detection(inside: Any, outside: Any) -> Detection:
    """Measure a score that should be higher on out-of-distribution input.

    Args:
        inside: (n,) scores of familiar sequences, for instance ``max_probability_score(prediction)``.
        outside: (m,) scores of foreign ones.

    Example:
        >>> answer = detection([0.1, 0.2, 0.6], [0.5, 0.9])
        >>> round(answer.auroc, 4), round(answer.aupr, 4), round(answer.fpr95, 4)
        (0.8333, 0.8333, 0.3333)
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    low, high = check_scores("inside", inside).cpu(), check_scores("outside", outside).cpu()
    foreign = torch.cat([torch.zeros(len(low)), torch.ones(len(high))]).numpy()
    score = torch.cat([low, high]).numpy()
    return Detection(
        auroc=float(roc_auc_score(foreign, score)),
        aupr=float(average_precision_score(foreign, score)),
        aupr_in=float(average_precision_score(1 - foreign, -score)),
        fpr95=_false_positives(high, low),
        fpr95_in=_false_positives(-low, -high),
    )


def check_scores(name: str, values: Any) -> Tensor:
    """Return scores as (n,) float64 after checking that there are some and that each is a number."""
    scores = as_numbers(name, values).detach().to(torch.float64)
    if scores.dim() != 1 or len(scores) == 0:
        raise ValueError(f"{name} must be a list of scores, not empty, got shape {tuple(scores.shape)}")
    if not bool(scores.isfinite().all()):
        raise ValueError(f"{name} holds NaN or infinity; every sequence needs a score")
    return scores


def _false_positives(positive: Tensor, negative: Tensor) -> float:
    """Share of negatives at or above the highest threshold that at least 95 % of positives reach."""
    needed = -(-19 * len(positive) // 20)  # ⌈0.95 n⌉ in whole numbers
    threshold = positive.sort(descending=True).values[needed - 1]
    return float((negative >= threshold).to(torch.float64).mean())
