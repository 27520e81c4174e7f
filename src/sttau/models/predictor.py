"""What all predictors share: one network, or an ensemble of networks."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from sttau.checks import check_inputs
from sttau.data import Described, Schema
from sttau.engine import Noise
from sttau.layers import LayerMode
from sttau.models.decisions import Decisions, Threshold
from sttau.models.kept import KeptTensors

if TYPE_CHECKING:
    from sttau.models.base import SequenceModel

Task = Literal["classification", "regression"]


class Predictor(nn.Module):
    """Anything that is trained, predicts and is saved: one network, or an ensemble of networks.

    Predictors take (batch, time, features), or (batch, time) token ids where they have an embedding, whatever the
    layer's own ``batch_first``; ``lengths`` holds the number of valid steps of each padded sequence.

    Attributes:
        task: ``classification`` or ``regression``.
        decisions: Validation data in brief and the thresholds chosen on it; None before :func:`sttau.calibrate`.
        detector: What an OOD detector found; None before :meth:`sttau.ood.Detector.keep`.
    """

    task: ClassVar[Task]
    decisions: Decisions | None
    detector: KeptTensors | None

    def __init__(self) -> None:
        super().__init__()
        self.decisions = None
        self.detector = None

    @property
    @abstractmethod
    def members(self) -> tuple[SequenceModel, ...]:
        """The networks that are trained independently of each other: the model itself, or those of an ensemble."""

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.members[0].head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the weights."""
        return self.members[0].head.weight.dtype

    @property
    def reads_tokens(self) -> bool:
        """Whether the input is token ids; features otherwise."""
        return self.members[0].embedding is not None

    @property
    def num_features(self) -> int | None:
        """Features per step of the input; None for token ids."""
        if self.reads_tokens:
            return None
        first = self.members[0]
        return first.layer.input_size if first.preprocessing is None else first.preprocessing.num_features

    @property
    def num_tokens(self) -> int | None:
        """Size of the vocabulary; None for features."""
        embedding = self.members[0].embedding
        return None if embedding is None else embedding.num_embeddings

    @property
    def num_outputs(self) -> int:
        """Classes of a classifier, or values that a regressor predicts."""
        raise NotImplementedError

    def resolve_mode(self, mode: LayerMode | None) -> LayerMode:
        """Return the mode of a call, after checking that the layers have it; None is the layers' own mode."""
        return self.members[0].layer.resolve_mode(mode)

    def check_inputs(self, inputs: Tensor, lengths: Tensor | None) -> Tensor | None:
        """Raise a clear error if the model cannot read this batch; return the lengths as int64."""
        preprocessing = self.members[0].preprocessing
        missing = preprocessing is not None and preprocessing.missing != "error"
        return check_inputs(inputs, lengths, features=self.num_features, tokens=self.num_tokens, missing=missing)

    @abstractmethod
    def check_targets(self, targets: Tensor, batch: int) -> Tensor:
        """Raise a clear error if these are not targets for ``batch`` sequences; return them as the loss takes them."""

    @abstractmethod
    def loss(
        self,
        inputs: Tensor,
        targets: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the mean loss of a batch.

        Args:
            inputs: Batch of inputs.
            targets: Their targets.
            lengths: (batch,) valid steps.
            noise: Noise of the draws; fresh by default.
            weights: (batch,) factors of the sequences' losses; None for 1.
        """

    @abstractmethod
    def penalty(self, sequences: int) -> Tensor | None:
        """Return what training adds to the mean loss of a batch; None where there is nothing to add.

        The evidence lower bound holds KL(q(w) ‖ p(w)) once for all the data (Blundell et al., 2015, §3.4), so next to a
        mean over sequences it is divided by their number.

        Args:
            sequences: Number of training sequences.
        """

    def member_noises(self, noise: Noise | None) -> list[Noise | None]:
        """Return the noise of each member."""
        return [noise]

    def separate_losses(self, noise: Noise | None) -> list[tuple[Predictor, Noise | None]]:
        """Return the predictors whose losses and penalties sum to this one's, each with its own noise."""
        return [(self, noise)]

    def set_progress(self, done: float | Tensor) -> None:
        """Note how much of the training is done, from 0 to 1; the loss may depend on it. Training sets it."""

    @abstractmethod
    def set_metadata(self, data: Described) -> None:
        """Keep the names of classes and features and the vocabulary of the data; they are saved with the model."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class; empty where it is not known."""
        return self.members[0]._metadata.class_names

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each feature; empty where it is not known."""
        return self.members[0]._metadata.feature_names

    @property
    def vocabulary(self) -> tuple[str, ...] | None:
        """Token of each id; None where it is not known."""
        return self.members[0]._metadata.vocabulary

    @property
    def schema(self) -> Schema | None:
        """Roles of the columns of the table it was trained on; None where they are not known."""
        return self.members[0]._metadata.schema

    @property
    def notes(self) -> Mapping[str, Any]:
        """What other parts of the library keep with the model, as plain values by name; saved with it."""
        return self.members[0]._metadata.notes

    def set_note(self, name: str, value: Any) -> None:
        """Keep a plain value under a name."""
        for member in self.members:
            member._metadata = member._metadata._replace(notes={**member._metadata.notes, name: value})

    def set_abstention(
        self, *, risk: float | None = None, coverage: float | None = None, confidence: float = 0.95
    ) -> Threshold:
        """Choose when predictions abstain, for a wanted risk or coverage; see :meth:`Decisions.choose_abstention`."""
        return self._calibrated().choose_abstention(risk=risk, coverage=coverage, confidence=confidence)

    def set_ood_threshold(self, false_alarms: float = 0.05) -> Threshold:
        """Choose when a sequence counts as OOD, for a rate of false alarms; see :meth:`Decisions.choose_ood`."""
        return self._calibrated().choose_ood(false_alarms)

    def _calibrated(self) -> Decisions:
        if self.decisions is None:
            raise ValueError("the model is not calibrated; call sttau.calibrate(model, validation_data) first")
        return self.decisions

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return all that constructs a predictor like this one, except its weights, as plain values."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to one safetensors file whose header holds the configuration as JSON. Atomic.

        Returns:
            The path written.
        """
        from sttau.models.saved import save

        return save(self, path)
