"""What a model knows of its own reliability: its predictions of validation data, and the thresholds chosen on them."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sttau.checks import check_level
from sttau.conformal import Score, conformal_quantile, quantile_per_class, quantile_per_output

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


def check_wanted(risk: float | None, coverage: float | None, *, classifies: bool) -> float:
    """Return the wanted risk or coverage, of which one must be given; a regressor has no risk."""
    wanted = risk if risk is not None else coverage
    if wanted is None or (risk is not None and coverage is not None):
        raise ValueError("give either risk or coverage")
    if not 0 < wanted <= 1:
        raise ValueError(f"{'risk' if risk is not None else 'coverage'} must be in (0, 1], got {wanted}")
    if risk is not None and not classifies:
        raise ValueError("risk is an error rate, which a regressor does not have; give a coverage")
    return wanted


class Decisions(nn.Module):
    """Summary of predictions of validation data, with the thresholds chosen on it; saved with the model.

    Made by :func:`sttau.calibrate`. Uncertainty is 1 − the largest probability of a classifier, and the standard
    deviation of a regressor; loss is 1 for a wrong class, and the squared error.

    Args:
        size: Number of validation sequences.
        abstention: Arguments of the threshold of abstention.
        ood: Arguments of the threshold of OOD detection.
        classes: Number of classes, where labels and scores of several conformal methods are kept.
        outputs: Number of outputs, where the residual of each output is kept.

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
    adaptive: Tensor | None
    label: Tensor | None
    residual: Tensor | None

    def __init__(
        self,
        size: int,
        abstention: dict[str, Any] | None = None,
        ood: dict[str, Any] | None = None,
        classes: int | None = None,
        outputs: int | None = None,
    ) -> None:
        super().__init__()
        for name in ("uncertainty", "loss", "nonconformity", "entropy"):
            self.register_buffer(name, torch.zeros(size, dtype=torch.float64))
        self.classes, self.outputs = classes, outputs
        self.register_buffer("adaptive", None if classes is None else torch.zeros(size, dtype=torch.float64))
        self.register_buffer("label", None if classes is None else torch.zeros(size, dtype=torch.int64))
        self.register_buffer("residual", None if outputs is None else torch.zeros(size, outputs, dtype=torch.float64))
        self.abstention = None if abstention is None else Threshold(**abstention)
        self.ood = None if ood is None else Threshold(**ood)

    @classmethod
    def of(
        cls,
        uncertainty: Tensor,
        loss: Tensor,
        nonconformity: Tensor | None = None,
        entropy: Tensor | None = None,
        *,
        adaptive: Tensor | None = None,
        label: Tensor | None = None,
        classes: int | None = None,
        residual: Tensor | None = None,
    ) -> Decisions:
        """Return the decisions for predictions of validation data.

        Args:
            uncertainty: (sequences,) uncertainty of each prediction.
            loss: (sequences,) loss of each prediction.
            nonconformity: (sequences,) 1 − the probability of the true class, or |error| / standard deviation.
            entropy: (sequences,) total uncertainty, the score for OOD input.
            adaptive: (sequences,) APS score of the true class; with ``label`` and ``classes``.
            label: (sequences,) true classes.
            classes: Number of classes.
            residual: (sequences, outputs) |error| / standard deviation of each output of a regressor.
        """
        count = len(uncertainty)
        rows = torch.arange(count) if count <= _LARGEST else torch.linspace(0, count - 1, _LARGEST).long()
        made = cls(len(rows), classes=classes, outputs=None if residual is None else residual.shape[1])
        given = {"uncertainty": uncertainty, "loss": loss, "nonconformity": nonconformity, "entropy": entropy}
        given = {name: uncertainty if value is None else value for name, value in given.items()}
        given |= {"adaptive": adaptive, "label": label, "residual": residual}
        for name, value in given.items():
            if value is not None:
                getattr(made, name).copy_(value[rows])
        return made

    def _apply(self, fn: Any, recurse: bool = True) -> Decisions:
        """Move to a device, and keep float64 whatever the dtype of the model."""
        for name, buffer in list(self._buffers.items()):
            if buffer is not None:
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
        wanted = check_wanted(risk, coverage, classifies=self._counts_errors)
        check_level("confidence", confidence, 0.95)
        doubt, order = self.uncertainty.cpu().sort(stable=True)
        lost = self.loss.cpu()[order].cumsum(0)
        # A threshold cannot separate equal values: these numbers of accepted predictions are possible.
        ends = torch.cat([(doubt.diff() > 0).nonzero().flatten() + 1, torch.tensor([len(doubt)])]).tolist()
        if coverage is not None:
            kept = next(end for end in ends if end >= coverage * len(doubt) - 1e-9)
            self.abstention = self._threshold(doubt, lost, kept, "coverage", coverage, confidence, confidence)
            return self.abstention
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
            false_alarms: Fraction of in-distribution sequences flagged as OOD.
        """
        check_level("false_alarms", false_alarms, 0.05)
        value = min(conformal_quantile(self.entropy, 1 - false_alarms), sys.float_info.max)  # infinity is not JSON
        accepted = float((self.entropy <= value).double().mean())
        self.ood = Threshold(value, "false alarms", false_alarms, accepted)
        return self.ood

    def quantile(self, level: float) -> float:
        """Return the nonconformity that a share ``level`` of new data stays below (split conformal prediction)."""
        return conformal_quantile(self.nonconformity, _check_level(level))

    def class_quantiles(self, level: float, score: Score = "lac", *, by_class: bool = False) -> Tensor:
        """Return the largest score of a class in a set of this level, (classes,); equal unless ``by_class``.

        Args:
            level: Probability that a set holds the true class.
            score: Score of :func:`sttau.conformal.class_scores`.
            by_class: Whether the level holds for every class, not only on average.
        """
        if self.adaptive is None or self.label is None or self.classes is None:
            raise ValueError("the model was calibrated by an earlier version; call sttau.calibrate(model, data) again")
        scores = self.nonconformity if score == "lac" else self.adaptive
        if by_class:
            return quantile_per_class(scores, self.label, self.classes, _check_level(level)).to(scores.device)
        return scores.new_full((self.classes,), conformal_quantile(scores, _check_level(level)))

    def output_quantiles(self, level: float) -> Tensor:
        """Return, for each output, the error in standard deviations that a share ``level`` stays below: (outputs,)."""
        if self.residual is None:
            raise ValueError("the model was calibrated by an earlier version; call sttau.calibrate(model, data) again")
        return quantile_per_output(self.residual, _check_level(level)).to(self.residual.device)

    def config(self) -> dict[str, Any]:
        """Return the arguments that construct such decisions, except the validation data."""
        thresholds = {"abstention": self.abstention, "ood": self.ood}
        sizes = {"size": len(self.loss), "classes": self.classes, "outputs": self.outputs}
        return {name: value for name, value in sizes.items() if value is not None} | {
            name: asdict(value) for name, value in thresholds.items() if value is not None
        }

    def extra_repr(self) -> str:
        """Show the number of validation sequences and the goals."""
        parts = [f"{len(self.loss)} validation sequences"]
        parts += [f"{t.goal} {t.wanted:g}" for t in (self.abstention, self.ood) if t is not None]
        return ", ".join(parts)


def _check_level(level: float) -> float:
    if not 0 <= level <= 1:
        raise ValueError(f"level must be in [0, 1], for instance 0.9, got {level}")
    return level


def clopper_pearson(errors: float, count: int, confidence: float) -> float:
    """Return the upper confidence bound of a rate, from a number of errors among ``count`` (Clopper & Pearson, 1934).

    Example:
        >>> round(clopper_pearson(0, 100, 0.95), 4), clopper_pearson(3, 3, 0.95)
        (0.0295, 1.0)
    """
    from scipy.special import betaincinv

    return 1.0 if errors >= count else float(betaincinv(errors + 1, count - errors, confidence))
