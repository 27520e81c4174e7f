"""The loss of a row: what ``fit`` may train a model with instead of the model's own loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.models.predictor import Task

#: Function of outputs (logits, or a ``Gaussian``) and targets that returns the loss of every row, (rows,).
LossFunction = Callable[[Any, Tensor], Tensor]
LossName = Literal["cross-entropy", "focal"]


def focal_loss(logits: Tensor, targets: Tensor, gamma: float = 2.0) -> Tensor:
    """Return the focal loss of every row, −(1 − p)^γ log p for the probability p of the label (Lin et al., 2017).

    Rows that are predicted well count less; with γ = 0 it is the cross-entropy.

    Args:
        logits: (rows, classes).
        targets: (rows,) labels.
        gamma: Exponent γ.

    Example:
        >>> focal_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([1])).item() == -0.25 * torch.tensor(0.5).log().item()
        True
    """
    log_p = logits.log_softmax(dim=-1).gather(-1, targets[:, None]).squeeze(-1)
    # 1 - p from log p: near p = 1 the difference of floats would lose its digits; at 0 a root has no slope.
    rest = (-log_p.expm1()).clamp_min(torch.finfo(log_p.dtype).tiny)
    return -rest.pow(gamma) * log_p


@dataclass(frozen=True)
class Criterion:
    """A loss per row, after a check that it is one.

    Attributes:
        function: Function of outputs and targets.
    """

    function: LossFunction

    def __call__(self, output: Any, targets: Tensor) -> Tensor:
        """Return the loss of every row."""
        losses = self.function(output, targets)
        if not isinstance(losses, Tensor) or losses.shape != (len(targets),):
            got = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
            raise ValueError(
                f"loss must return one value per row, a tensor of shape ({len(targets)},), got {got}; a loss of "
                "torch.nn needs reduction='none'"
            )
        return losses


def make_criterion(loss: LossName | LossFunction | None, label_smoothing: float, task: Task) -> Criterion | None:
    """Return the criterion that the options of training name; None for the model's own loss.

    Args:
        loss: Name, or function of outputs and targets; None for the model's own.
        label_smoothing: Share of every label that is spread evenly over all classes.
        task: Task of the model.

    Example:
        >>> make_criterion("cross-entropy", 0.0, "classification") is None
        True
    """
    if task == "regression" and (isinstance(loss, str) or label_smoothing):
        what = "label_smoothing" if label_smoothing else f"loss={loss!r}"
        raise ValueError(f"{what} is for classifiers; a regressor takes a function of its output and the targets")
    if loss is not None and callable(loss):
        return Criterion(loss)
    if loss == "focal":
        return Criterion(focal_loss)
    if label_smoothing:
        return Criterion(partial(F.cross_entropy, label_smoothing=label_smoothing, reduction="none"))
    return None


def check_loss(loss: Any, label_smoothing: float) -> None:
    """Raise where ``loss`` is neither a name nor a function, or does not go with ``label_smoothing``."""
    if not (loss is None or callable(loss) or loss in get_args(LossName)):
        raise ValueError(
            f"loss must be one of {', '.join(map(repr, get_args(LossName)))}, or a function of outputs and targets, "
            f"got {loss!r}"
        )
    if not (isinstance(label_smoothing, (int, float)) and 0 <= label_smoothing < 1):
        raise ValueError(f"label_smoothing must be in [0, 1), got {label_smoothing!r}")
    if label_smoothing and loss not in (None, "cross-entropy"):
        raise ValueError("label_smoothing is part of loss='cross-entropy'; leave one of them out")


def weighted_mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean over rows (and outputs) of losses times weights; weights have mean 1 over the training data.

    Args:
        losses: (rows,) or (rows, outputs).
        weights: (rows,); None for weights of 1.
    """
    if weights is None:
        return losses.mean()
    return (losses.flatten(1).mean(1) if losses.dim() > 1 else losses).mul(weights).mean()
