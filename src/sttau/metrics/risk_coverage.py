"""Selective prediction: the loss of the predictions that remain if the least certain are withheld.

See Geifman & El-Yaniv (2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sttau.metrics.error import mistakes
from sttau.metrics.inputs import SELECTION, check_losses
from sttau.metrics.record import Metric, PerExample, Weighted
from sttau.metrics.sorting import SortedGroups, increments


@dataclass(frozen=True)
class RiskCoverageCurve:
    """Mean loss of the predictions that are kept, by the fraction that is kept.

    Attributes:
        coverage: (n,) 1/n, 2/n, …, 1.
        risk: (n,) mean loss of that many most certain predictions. Ties are broken at random, and this is the
            expectation.
    """

    coverage: Tensor
    risk: Tensor

    @property
    def area(self) -> float:
        """AURC: the mean risk over all coverages; smaller is better."""
        return float(self.risk.mean())


def risk_coverage_curve(uncertainty: Any, losses: Any) -> RiskCoverageCurve:
    """Risk at every coverage if the most uncertain predictions are withheld first.

    Args:
        uncertainty: (n,) uncertainty, for instance a score of :mod:`sttau.ood.scores`; larger is withheld earlier.
        losses: (n,) loss of each prediction; for instance 1 for a wrong and 0 for a right prediction.

    Example:
        >>> curve = risk_coverage_curve([0.1, 0.4, 0.2, 0.4], [0, 1, 0, 0])
        >>> [round(r, 3) for r in curve.risk.tolist()], round(curve.area, 4)
        ([0.0, 0.0, 0.167, 0.25], 0.1042)
    """
    doubt, loss = check_losses(uncertainty, losses)
    _, group, size = torch.unique(doubt, return_inverse=True, return_counts=True)
    # Within a group of ties, the expected loss at each place is the group's mean loss.
    mean = torch.zeros_like(size, dtype=torch.float64).index_add(0, group, loss) / size
    kept = torch.arange(1, len(doubt) + 1, dtype=torch.float64, device=doubt.device)
    return RiskCoverageCurve(kept / len(doubt), mean.repeat_interleave(size).cumsum(0) / kept)


def area_under_risk_coverage(uncertainty: Any, losses: Any, excess: bool = False) -> float:
    """AURC: the mean, over all coverages, of the risk of the predictions that are kept; smaller is better.

    Args:
        uncertainty: (n,) uncertainty; larger is withheld earlier.
        losses: (n,) loss of each prediction.
        excess: Whether to subtract the AURC of the optimal order, by loss (E-AURC, Geifman et al., 2019): 0 is then
            the best order, whatever the accuracy.

    Example:
        >>> area_under_risk_coverage([0.1, 0.9], [0, 1]), area_under_risk_coverage([0.1, 0.9], [0, 1], excess=True)
        (0.25, 0.0)
    """
    area = risk_coverage_curve(uncertainty, losses).area
    return area - risk_coverage_curve(losses, losses).area if excess else area


def _rows(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return (predictions, 2): 1 - confidence, and 1 for a wrong prediction."""
    doubt = 1 - probabilities.to(torch.float64).amax(-1)
    return torch.stack([doubt, mistakes(probabilities, labels)], -1)


def _weighted(rows: Tensor) -> Weighted:
    """AURC of rows of uncertainty and loss; the sum over the places of a group is a sum of harmonic numbers."""
    groups, losses = SortedGroups.by(rows[:, 0]), rows[:, 1]

    def value(weights: Tensor) -> Tensor:
        kept, lost = groups.cumulate(weights), groups.cumulate(weights * losses)
        size, loss = increments(kept), increments(lost)
        before, lost_before = kept - size, lost - loss
        mean = loss / size.clamp_min(1)
        total = weights.sum(1)
        steps = torch.arange(1, int(total.max()) + 1, dtype=torch.float64)
        harmonic = torch.cat([torch.zeros(1, dtype=torch.float64), (1 / steps).cumsum(0)])
        tail = increments(harmonic[kept.long()])
        return (loss + (lost_before - before * mean) * tail).sum(1) / total

    return value


AREA_UNDER_RISK_COVERAGE = Metric(
    name="aurc",
    function=area_under_risk_coverage,
    inputs=SELECTION,
    title="AURC",
    direction="min",
    digits=3,
    percent=True,
    class_name="AreaUnderRiskCoverage",
    per_example=PerExample("classification", _rows, _weighted),
)

METRICS = (AREA_UNDER_RISK_COVERAGE,)
