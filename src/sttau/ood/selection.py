"""Selective prediction: how wrong are the answers if the most doubtful are withheld? (Geifman & El-Yaniv, 2017.)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sttau.ood.metrics import check_scores


@dataclass(frozen=True)
class RiskCoverageCurve:
    """Mean loss of the answers that are given, by how many are given.

    Attributes:
        coverage: (n,) 1/n, 2/n, …, 1.
        risk: (n,) mean loss of so many least doubtful answers. Among equally doubtful ones the order is left to chance,
            and this is the expectation.
    """

    coverage: Tensor
    risk: Tensor

    @property
    def area(self) -> float:
        """AURC: the mean risk over all coverages; smaller is better."""
        return float(self.risk.mean())


def risk_coverage_curve(uncertainty: Any, losses: Any) -> RiskCoverageCurve:
    """Withhold the most doubtful answers first.

    Args:
        uncertainty: (n,) a score of :mod:`sttau.ood.scores`: larger means withheld earlier.
        losses: (n,) what each answer costs if it is given; 1 for a mistake and 0 for none.

    Example:
        >>> curve = risk_coverage_curve([0.1, 0.4, 0.2, 0.4], [0, 1, 0, 0])
        >>> [round(r, 3) for r in curve.risk.tolist()], round(curve.area, 4)
        ([0.0, 0.0, 0.167, 0.25], 0.1042)
    """
    doubt, loss = check_losses(uncertainty, losses)
    _, group, size = torch.unique(doubt, return_inverse=True, return_counts=True)
    # Within a group of equals each place holds the group's mean loss in expectation.
    mean = torch.zeros_like(size, dtype=torch.float64).index_add(0, group, loss) / size
    given = torch.arange(1, len(doubt) + 1, dtype=torch.float64, device=doubt.device)
    return RiskCoverageCurve(given / len(doubt), mean.repeat_interleave(size).cumsum(0) / given)


def area_under_risk_coverage(uncertainty: Any, losses: Any, excess: bool = False) -> float:
    """AURC: the mean, over all coverages, of the risk of the answers given; smaller is better.

    Args:
        uncertainty: (n,) larger means withheld earlier.
        losses: (n,) what each answer costs.
        excess: subtract what withholding the costliest first would give (E-AURC, Geifman et al., 2019): 0 is the best
            order, whatever the accuracy.

    Example:
        >>> area_under_risk_coverage([0.1, 0.9], [0, 1]), area_under_risk_coverage([0.1, 0.9], [0, 1], excess=True)
        (0.25, 0.0)
    """
    area = risk_coverage_curve(uncertainty, losses).area
    return area - risk_coverage_curve(losses, losses).area if excess else area


def check_losses(uncertainty: Any, losses: Any) -> tuple[Tensor, Tensor]:
    """Return both as (n,) float64 after checking that each answer has one of each."""
    doubt, loss = check_scores("uncertainty", uncertainty), check_scores("losses", losses)
    if len(doubt) != len(loss):
        raise ValueError(f"uncertainty and losses must be equally many, got {len(doubt)} and {len(loss)}")
    return doubt, loss.to(doubt.device)
