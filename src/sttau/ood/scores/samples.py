"""The input of OOD scores, brought to one form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.checks import check_probabilities


def as_samples(probabilities: Any) -> Tensor:
    """Return (samples, predictions, classes) probabilities in float64.

    Example:
        >>> as_samples([[0.5, 0.5], [1.0, 0.0]]).shape
        torch.Size([1, 2, 2])
    """
    p = check_probabilities("probabilities", probabilities, (2, 3)).to(torch.float64)
    return p if p.dim() == 3 else p[None]
