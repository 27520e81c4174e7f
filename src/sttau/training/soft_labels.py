"""Class probabilities that a classifier is trained on instead of labels, as in knowledge distillation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_numbers

_SUM = 1e-3  # by which the probabilities of a sequence may miss 1


def as_soft_labels(value: Any) -> Tensor | None:
    """Return class probabilities as a float64 tensor of (sequences, classes) whose rows sum to 1, after checking them.

    Example:
        >>> as_soft_labels([[0.25, 0.75], [1, 0]]).tolist()
        [[0.25, 0.75], [1.0, 0.0]]
    """
    if value is None:
        return None
    soft = as_numbers("soft_labels", value).detach().to(torch.float64)
    if soft.dim() != 2:
        raise ValueError(f"soft_labels must be (sequences, classes), got shape {tuple(soft.shape)}")
    wrong = ~((soft >= 0) & soft.isfinite()).all(-1) | ((soft.sum(-1) - 1).abs() > _SUM)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"soft_labels must hold nonnegative probabilities that sum to 1, but row {row} is {soft[row].tolist()}"
        )
    return soft / soft.sum(-1, keepdim=True)


def training_targets(soft: Tensor | None, targets: Tensor, num_classes: int | None, dtype: torch.dtype) -> Tensor:
    """Return what the loss compares outputs with: the soft labels where they are given, otherwise the targets.

    Args:
        soft: (sequences, classes) soft labels of :func:`as_soft_labels`, or None.
        targets: Targets of the training data.
        num_classes: Number of classes; None for regression.
        dtype: Dtype of the model.
    """
    if soft is None:
        return targets
    if num_classes is None:
        raise ValueError("soft_labels are for classifiers; a regressor takes values as targets")
    if tuple(soft.shape) != (len(targets), num_classes):
        raise ValueError(
            f"soft_labels must have shape ({len(targets)}, {num_classes}), one row per training sequence and one "
            f"column per class, got {tuple(soft.shape)}"
        )
    return soft.to(dtype)
