"""Deciding early: stop reading a sequence as soon as the prediction is sure enough, and what that costs."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from sttau.checks import as_tensor, check_labels, check_lengths, check_probabilities


class EarlyDecision(NamedTuple):
    """Decisions on sequences that were read only as far as needed."""

    label: Tensor  # (sequences,) predicted class
    step: Tensor  # (sequences,) steps read, at least 1


class EarlinessCurve(NamedTuple):
    """Error and share of the sequence read, for a range of thresholds."""

    threshold: Tensor
    error: Tensor  # share of wrong decisions
    earliness: Tensor  # mean share of each sequence that was read

    def choose(self, max_error: float) -> float:
        """Return the lowest threshold whose error does not exceed ``max_error`` for it and all higher thresholds.

        The thresholds should be evaluated on validation data.
        """
        fails = (self.error > max_error).nonzero().flatten()
        place = 0 if len(fails) == 0 else int(fails[-1]) + 1
        if place == len(self.threshold):
            raise ValueError(
                f"max_error={max_error} is not reached: even whole sequences have an error of {self.error[-1]:.3f}"
            )
        return float(self.threshold[place])


def decide_early(probabilities: Any, threshold: float, lengths: Any = None) -> EarlyDecision:
    """Decide at the first step whose largest probability reaches a threshold, or else at the last step.

    Args:
        probabilities: (sequences, time, classes) after every step: ``predict(..., per_step=True).mean``.
        threshold: Confidence at which reading stops; above 1, every sequence is read to its end.
        lengths: (sequences,) valid steps; all by default.

    Example:
        >>> p = torch.tensor([[[0.6, 0.4], [0.1, 0.9]], [[0.95, 0.05], [0.2, 0.8]]])
        >>> decide_early(p, 0.9)
        EarlyDecision(label=tensor([1, 0]), step=tensor([2, 1]))
    """
    p, valid = _check(probabilities, lengths)
    confidence, label = p.max(-1)
    time = torch.arange(p.shape[1], device=p.device)
    sure = (confidence >= threshold) & (time < valid[:, None])
    first = torch.where(sure.any(1), sure.int().argmax(1), valid - 1)
    return EarlyDecision(label.gather(1, first[:, None])[:, 0], first + 1)


def earliness_curve(probabilities: Any, labels: Any, lengths: Any = None, thresholds: Any = None) -> EarlinessCurve:
    """Compute error against earliness for a range of thresholds.

    Args:
        probabilities: (sequences, time, classes) after every step.
        labels: (sequences,) true classes.
        lengths: (sequences,) valid steps; all by default.
        thresholds: Confidences, ascending; 0, 0.01, … 1 and "read everything" (above 1) by default.

    Example:
        >>> p = torch.tensor([[[0.6, 0.4], [0.1, 0.9]], [[0.95, 0.05], [0.8, 0.2]]])
        >>> curve = earliness_curve(p, torch.tensor([1, 0]), thresholds=[0.5, 0.9])
        >>> curve.error.tolist(), curve.earliness.tolist(), round(curve.choose(max_error=0.1), 2)
        ([0.5, 0.0], [0.5, 0.75], 0.9)
    """
    p, valid = _check(probabilities, lengths)
    wanted = check_labels(as_tensor("labels", labels), len(p), p.shape[-1]).to(p.device)
    given = torch.cat([torch.linspace(0, 1, 101), torch.tensor([1.01])]) if thresholds is None else thresholds
    levels = torch.as_tensor(given, dtype=torch.float64)
    error, read = [], []
    for level in levels.tolist():
        label, step = decide_early(p, level, valid)
        error.append((label != wanted).double().mean())
        read.append((step / valid).double().mean())
    return EarlinessCurve(levels, torch.stack(error).cpu(), torch.stack(read).cpu())


def _check(probabilities: Any, lengths: Any) -> tuple[Tensor, Tensor]:
    p = check_probabilities("probabilities", probabilities, dims=(3,))
    given = None if lengths is None else as_tensor("lengths", lengths)
    valid = check_lengths(given, *p.shape[:2])
    return p, (torch.full((len(p),), p.shape[1]) if valid is None else valid).to(p.device)
