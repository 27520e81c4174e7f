"""What a model knows of its own reliability: its predictions of validation data, and the thresholds chosen on them."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

Goal = Literal["risk", "coverage", "false alarms"]

_LARGEST = 10_000  # validation sequences that are kept


@dataclass(frozen=True)
class Threshold:
    """A threshold on an uncertainty, and how it was chosen.

    Attributes:
        value: Largest uncertainty that is accepted.
        goal: What was asked for: ``risk``, ``coverage`` or ``false alarms``.
        wanted: Its value.
        coverage: Share of the validation data that is accepted.
        risk: Mean loss of the accepted validation data; None where none is accepted.
        bound: Upper confidence bound of the risk on new data from the same source; None where it is not known.
        confidence: Confidence of that bound.
    """

    value: float
    goal: Goal
    wanted: float
    coverage: float
    risk: float | None = None
    bound: float | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            missing = value is None and name in ("risk", "bound", "confidence")
            if name != "goal" and not missing and not isinstance(value, (int, float)):
                raise TypeError(f"{name} of a threshold must be a number, got {value!r}")


class Decisions(nn.Module):
    """Predictions of validation data in brief, and the thresholds chosen on them; saved with the model.

    Made by :func:`sttau.calibrate`. Uncertainty is 1 − the largest probability of a classifier, and the standard
    deviation of a regressor; loss is 1 for a wrong class, and the squared error.

    Args:
        size: Number of validation sequences.

    Example:
        >>> decisions = Decisions.of(torch.linspace(0, 0.5, 200), (torch.arange(200) > 180).double())
        >>> chosen = decisions.choose_abstention(risk=0.05)
        >>> chosen.coverage, round(chosen.risk, 3), chosen.bound <= 0.05
        (0.915, 0.011, True)
    """

    uncertainty: Tensor
    loss: Tensor
    nonconformity: Tensor
    entropy: Tensor

    def __init__(self, size: int, abstention: dict[str, Any] | None = None, ood: dict[str, Any] | None = None) -> None:
        super().__init__()
        for name in ("uncertainty", "loss", "nonconformity", "entropy"):
            self.register_buffer(name, torch.zeros(size, dtype=torch.float64))
        self.abstention = None if abstention is None else Threshold(**abstention)
        self.ood = None if ood is None else Threshold(**ood)

    @classmethod
    def of(
        cls, uncertainty: Tensor, loss: Tensor, nonconformity: Tensor | None = None, entropy: Tensor | None = None
    ) -> Decisions:
        """Return the decisions for predictions of validation data.

        Args:
            uncertainty: (sequences,) uncertainty of each prediction.
            loss: (sequences,) loss of each prediction.
            nonconformity: (sequences,) 1 − the probability of the true class, or |error| / standard deviation.
            entropy: (sequences,) total uncertainty, the score for OOD input.
        """
        count = len(uncertainty)
        rows = torch.arange(count) if count <= _LARGEST else torch.linspace(0, count - 1, _LARGEST).long()
        made = cls(len(rows))
        given = {"uncertainty": uncertainty, "loss": loss, "nonconformity": nonconformity, "entropy": entropy}
        for name, value in given.items():
            getattr(made, name).copy_((uncertainty if value is None else value)[rows])
        return made

    def _apply(self, fn: Any, recurse: bool = True) -> Decisions:
        """Move to a device, and keep float64 whatever the dtype of the model."""
        for name, buffer in list(self._buffers.items()):
            assert buffer is not None
            self._buffers[name] = buffer.to(fn(buffer).device)
        return self

    # -- choosing ----------------------------------------------------------------------------------------------------

    def choose_abstention(
        self, *, risk: float | None = None, coverage: float | None = None, confidence: float = 0.95
    ) -> Threshold:
        """Choose the largest uncertainty that is accepted, for a wanted risk or a wanted coverage.

        For a wanted risk of a classifier, the threshold accepts as much as possible such that the error rate of
        accepted predictions of new data stays below it, with the given confidence (Geifman & El-Yaniv, 2017): a
        Clopper-Pearson bound at each of the thresholds that a binary search visits. It holds for validation data that
        took no part in training, early stopping included.

        Args:
            risk: Largest error rate of accepted predictions.
            coverage: Share of predictions that is accepted.
            confidence: Confidence of the bound.
        """
        if (risk is None) == (coverage is None):
            raise ValueError("give either risk or coverage")
        wanted = risk if risk is not None else coverage
        assert wanted is not None
        if not 0 < wanted <= 1:
            raise ValueError(f"{'risk' if risk is not None else 'coverage'} must be in (0, 1], got {wanted}")
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be in (0, 1), got {confidence}")
        doubt, order = self.uncertainty.cpu().sort(stable=True)
        lost = self.loss.cpu()[order].cumsum(0)
        # A threshold cannot separate equal values: these numbers of accepted predictions are possible.
        ends = torch.cat([(doubt.diff() > 0).nonzero().flatten() + 1, torch.tensor([len(doubt)])]).tolist()
        if coverage is not None:
            kept = next(end for end in ends if end >= coverage * len(doubt) - 1e-9)
            self.abstention = self._threshold(doubt, lost, kept, "coverage", coverage, confidence, confidence)
            return self.abstention
        if not self._counts_errors:
            raise ValueError("risk is an error rate, which a regressor does not have; give a coverage")
        each = 1 - (1 - confidence) / max(1, math.ceil(math.log2(len(ends) + 1)))
        ends = [end for end in ends if clopper_pearson(0, end, each) <= wanted]  # fewer cannot show that risk
        low, high = 0, len(ends)  # the first ``low`` are within the risk; at most ``high`` may be
        while low < high:
            middle = (low + high + 1) // 2
            kept = ends[middle - 1]
            if clopper_pearson(float(lost[kept - 1]), kept, each) <= wanted:
                low = middle
            else:
                high = middle - 1
        self.abstention = self._threshold(doubt, lost, ends[low - 1] if low else 0, "risk", wanted, each, confidence)
        return self.abstention

    @property
    def _counts_errors(self) -> bool:
        """Whether a loss is 1 for an error and 0 otherwise."""
        return bool(((self.loss == 0) | (self.loss == 1)).all())

    def _threshold(
        self, doubt: Tensor, lost: Tensor, kept: int, goal: Goal, wanted: float, each: float, confidence: float
    ) -> Threshold:
        """The threshold that accepts so many predictions; ``each`` is the confidence of a single bound."""
        if kept == 0:
            return Threshold(-1.0, goal, wanted, 0.0, confidence=confidence)
        risk = float(lost[kept - 1]) / kept
        bound = clopper_pearson(float(lost[kept - 1]), kept, each) if self._counts_errors else None
        return Threshold(float(doubt[kept - 1]), goal, wanted, kept / len(doubt), risk, bound, confidence)

    def choose_ood(self, false_alarms: float = 0.05) -> Threshold:
        """Choose the largest total uncertainty of in-distribution data, for a wanted rate of false alarms.

        Args:
            false_alarms: Share of in-distribution sequences that may be called OOD.
        """
        if not 0 < false_alarms < 1:
            raise ValueError(f"false_alarms must be in (0, 1), got {false_alarms}")
        value = min(conformal_quantile(self.entropy, 1 - false_alarms), sys.float_info.max)  # infinity is not JSON
        accepted = float((self.entropy <= value).double().mean())
        self.ood = Threshold(value, "false alarms", false_alarms, accepted)
        return self.ood

    def quantile(self, level: float) -> float:
        """Return the nonconformity that a share ``level`` of new data stays below (split conformal prediction)."""
        if not 0 < level < 1:
            raise ValueError(f"level must be in (0, 1), got {level}")
        return conformal_quantile(self.nonconformity, level)

    def config(self) -> dict[str, Any]:
        """Return the arguments that construct such decisions, except the validation data."""
        thresholds = {"abstention": self.abstention, "ood": self.ood}
        return {"size": len(self.loss)} | {
            name: asdict(value) for name, value in thresholds.items() if value is not None
        }

    def extra_repr(self) -> str:
        """Show the number of validation sequences and the goals."""
        parts = [f"{len(self.loss)} validation sequences"]
        parts += [f"{t.goal} {t.wanted:g}" for t in (self.abstention, self.ood) if t is not None]
        return ", ".join(parts)


def conformal_quantile(scores: Tensor, level: float) -> float:
    """Return the ⌈(n + 1) level⌉-th smallest score; infinity where there are too few.

    A new score from the same source is at most this value with probability at least ``level`` (Vovk et al., 2005).

    Example:
        >>> conformal_quantile(torch.arange(1.0, 10.0), 0.8), conformal_quantile(torch.arange(1.0, 10.0), 0.95)
        (8.0, inf)
    """
    rank = math.ceil((len(scores) + 1) * level - 1e-9)
    return math.inf if rank > len(scores) else float(scores.sort().values[rank - 1])


def clopper_pearson(errors: float, count: int, confidence: float) -> float:
    """Return the upper confidence bound of a rate, from a number of errors among ``count`` (Clopper & Pearson, 1934).

    Example:
        >>> round(clopper_pearson(0, 100, 0.95), 4), clopper_pearson(3, 3, 0.95)
        (0.0295, 1.0)
    """
    from scipy.special import betaincinv

    return 1.0 if errors >= count else float(betaincinv(errors + 1, count - errors, confidence))
