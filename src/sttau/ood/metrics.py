"""How well a score tells foreign input from familiar input (Hendrycks & Gimpel, 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sttau.checks import as_tensor


@dataclass(frozen=True)
class Detection:
    """Areas under the curves, out-of-distribution being the positive class. Fractions; chance is 0.5 for AUROC."""

    auroc: float
    aupr: float


def detection(inside: Any, outside: Any) -> Detection:
    """Measure a score that should be higher on out-of-distribution input.

    Args:
        inside: (n,) scores of familiar sequences, for instance ``1 - prediction.confidence``.
        outside: (m,) scores of foreign ones.

    Example:
        >>> detection([0.1, 0.2, 0.6], [0.5, 0.9])
        Detection(auroc=0.8333333333333334, aupr=0.8333333333333333)
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    parts = []
    for name, values in (("inside", inside), ("outside", outside)):
        scores = as_tensor(name, values).detach().cpu().to(torch.float64)
        if scores.dim() != 1 or len(scores) == 0:
            raise ValueError(f"{name} must be a list of scores, not empty, got shape {tuple(scores.shape)}")
        if not bool(scores.isfinite().all()):
            raise ValueError(f"{name} holds NaN or infinity; every sequence needs a score")
        parts.append(scores)
    truth = torch.cat([torch.zeros(len(parts[0])), torch.ones(len(parts[1]))]).numpy()
    score = torch.cat(parts).numpy()
    return Detection(float(roc_auc_score(truth, score)), float(average_precision_score(truth, score)))
