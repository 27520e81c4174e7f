"""The interface of OOD detectors: fit to training data, score, choose a threshold, keep it in the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from sttau.checks import check_level
from sttau.conformal import conformal_quantile
from sttau.inference import features
from sttau.inference.inputs import as_inputs
from sttau.models import FixedLabels, KeptTensors, Predictor

if TYPE_CHECKING:
    from typing_extensions import Self


class Detector(ABC):
    """Base class of OOD detectors. For all of them, larger scores mean more probably out-of-distribution.

    Attributes:
        name: Name in :data:`sttau.ood.DETECTORS`.
        largest: Number of training sequences it is fitted to at most; None for all.
        threshold: Largest score of in-distribution data; None before :meth:`choose_threshold`.
        absent: Settings that files of earlier versions lack, with the values such files mean.
        tensors: What ``fit`` found.
    """

    name: ClassVar[str]
    absent: ClassVar[dict[str, Any]] = {}
    largest: ClassVar[int | None] = 5000
    tensors: dict[str, Tensor]
    threshold: float | None

    def __init__(self, samples: int = 10, seed: int = 0) -> None:
        self.samples, self.seed = samples, seed
        self.tensors, self.threshold = {}, None
        self._fitted = False

    def __repr__(self) -> str:
        threshold = "" if self.threshold is None else f"threshold={self.threshold:.4g}"
        return f"{type(self).__name__}({threshold})"

    def fit(self, model: Predictor, train: Any, lengths: Any = None) -> Self:
        """Fit to training data; where that is much, to some of its sequences (``largest``), evenly spaced.

        Args:
            model: A trained classifier or regressor, or an ensemble.
            train: Training data: a ``SequenceDataset``, or inputs.
            lengths: (sequences,) valid steps; only with inputs.
        """
        inputs, lengths = as_inputs(model, train, lengths)
        labels = getattr(train, "labels", None)
        if self.largest is not None and len(inputs) > self.largest:
            rows = torch.linspace(0, len(inputs) - 1, self.largest).long()
            inputs, lengths = inputs[rows], None if lengths is None else lengths[rows]
            labels = None if labels is None else labels[rows]
        self.check(model)
        self._fit(model, inputs, lengths, labels)
        self._fitted = True
        return self

    def score(self, model: Predictor, data: Any, lengths: Any = None) -> Tensor:
        """Return (sequences,) scores in float64, larger for OOD input.

        Args:
            model: The model it was fitted with.
            data: Sequences, in any form that :func:`sttau.predict` takes.
            lengths: (batch,) valid steps of padded arrays.
        """
        if not self._fitted:
            raise RuntimeError(f"this {type(self).__name__} is not fitted; call fit(model, train) first")
        self.check(model)
        return self._score(model, *as_inputs(model, data, lengths)).to(torch.float64).cpu()

    def choose_threshold(self, model: Predictor, data: Any, lengths: Any = None, false_alarms: float = 0.05) -> float:
        """Choose the threshold such that at most this share of in-distribution data is called OOD.

        Args:
            model: The model it was fitted with.
            data: Validation data that was not trained on.
            lengths: (batch,) valid steps of padded arrays.
            false_alarms: Fraction of in-distribution sequences flagged as OOD.
        """
        check_level("false_alarms", false_alarms, 0.05)
        limit = torch.finfo(torch.float64).max  # infinity is not JSON
        self.threshold = min(conformal_quantile(self.score(model, data, lengths), 1 - false_alarms), limit)
        return self.threshold

    def is_ood(self, model: Predictor, data: Any, lengths: Any = None) -> Tensor:
        """Return (sequences,) whether the score is beyond the threshold."""
        if self.threshold is None:
            raise ValueError("is_ood needs a threshold; call choose_threshold(model, validation_data) first")
        return self.score(model, data, lengths) > self.threshold

    def keep(self, model: Predictor) -> None:
        """Keep the detector in the model, to be saved with it; :func:`sttau.ood.kept_detector` returns it."""
        settings = self.settings() | {"samples": self.samples, "seed": self.seed}
        kept = KeptTensors.of(self.name, self.tensors, settings | {"threshold": self.threshold})
        model.detector = kept.to(model.device)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that construct such a detector, besides those of all detectors."""
        return {}

    def check(self, model: Predictor) -> None:
        """Raise, with the reason, where a model cannot be used."""
        return None

    @abstractmethod
    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None: ...

    @abstractmethod
    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor: ...

    def _features(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        """The output of the recurrent layers, (sequences, size) in float64."""
        return features(model, inputs, lengths, self.samples, self.seed).to(torch.float64)


class HeadDetector(Detector):
    """Base class of detectors that read the input of a classifier's head, member by member."""

    def check(self, model: Predictor) -> None:
        """Refuse regressors, and heads that do not compute logits."""
        if model.task != "classification":
            raise ValueError(f"{self.name} needs the logits of a classifier; for a regressor use mahalanobis or knn")
        if any(isinstance(member.head, FixedLabels) for member in model.members):
            raise ValueError(f"{self.name} needs a dense head; head='halves' has no logits")

    def _heads(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Input, weight and bias of each member's head in float64; the input is averaged over samples."""
        every = features(model, inputs, lengths, self.samples, self.seed, readout=None).to(torch.float64)
        parts = every.chunk(len(model.members), dim=-1)
        heads = [[value.detach().cpu().double() for value in (m.head.weight, m.head.bias)] for m in model.members]
        return [(part, weight, bias) for part, (weight, bias) in zip(parts, heads, strict=True)]
