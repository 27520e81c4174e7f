"""Class probabilities for a sequence."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau.checks import as_integer, check_labels
from sttau.engine import Noise
from sttau.layers import LayerMode, as_layer
from sttau.models.base import SequenceModel
from sttau.models.criterion import weighted_mean
from sttau.models.heads import FixedLabels
from sttau.models.predictor import Task
from sttau.models.preprocessing import Preprocessing
from sttau.padding import last_valid_step

Head = Literal["dense", "halves"]

_LABEL_SMOOTHING = 0.01  # of a hard draw's label, for states with fixed labels: log 0 has no useful gradient


class SequenceClassifier(SequenceModel):
    """Class probabilities for a sequence: embedding or features, recurrent layer, dense head, softmax.

    Args:
        layer: Any layer of ``sttau.layers.LAYERS``: ST-τ, a baseline, ``nn.LSTM`` or ``nn.GRU``.
        num_classes: Number of classes, at least 2.
        embedding: Embedding of token ids; None for features.
        head: ``dense``, or ``halves`` for a finite-state layer: the first half of the states rejects, the second
            accepts (the paper's Algorithm 2); with more classes each has an equal share. The loss is then
            −log Σ_{j in the right half} α_j. The label is certain given the state, so aleatoric uncertainty is 0 by
            construction and all noise counts as epistemic (docs/mathematics.md, §5).
        dropout: Dropout rate of the token vectors and of the head's input, in training. In exact mode a token, and a
            state that the head reads, lose the same components throughout a batch.
        word_dropout: Rate at which tokens are replaced by the unknown token (id 1), in training.
        paths: Number of samples whose mean probability the loss is computed from, in training: the loss is that of a
            Monte Carlo prediction. With 1, every sample must explain the data by itself and learns to be
            overconfident.
        input_noise: Standard deviation of noise added to features, in training.
        preprocessing: Scaling, missing values and patches of the features; None to read them as they are.
        logit_temperature: Temperature by which logits are divided outside training (temperature scaling); set by
            :func:`sttau.calibrate`. It is not the τ of the states.

    Example:
        >>> from sttau import STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 32, num_states=5), num_classes=3)
        >>> model(torch.randn(4, 10, 8), lengths=torch.tensor([10, 7, 3, 1])).shape
        torch.Size([4, 3])
    """

    task: ClassVar[Task] = "classification"

    def __init__(
        self,
        layer: nn.Module,
        num_classes: int,
        embedding: nn.Embedding | None = None,
        head: Head = "dense",
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        paths: int = 1,
        input_noise: float = 0.0,
        preprocessing: Preprocessing | None = None,
        logit_temperature: float = 1.0,
    ) -> None:
        num_classes, paths = as_integer("num_classes", num_classes, 2), as_integer("paths", paths, 1)
        if paths > 1 and not as_layer(layer).can_sample:
            raise ValueError("paths needs a layer that samples: all samples of any other are equal")
        if head not in get_args(Head):
            raise ValueError(f"head must be one of {', '.join(map(repr, get_args(Head)))}, got {head!r}")
        super().__init__(layer, num_classes, embedding, dropout, word_dropout, paths, input_noise, preprocessing)
        if not (logit_temperature > 0 and math.isfinite(logit_temperature)):
            raise ValueError(f"logit_temperature must be positive and finite, got {logit_temperature}")
        self.num_classes = num_classes
        self.logit_temperature = float(logit_temperature)
        if head == "halves":
            finite = self.finite_state_layer
            if self.patch_size > 1:
                raise ValueError("head='halves' reads single steps; give the preprocessing patch_size=1")
            if finite.bidirectional or finite.readout != "state":
                raise ValueError("head='halves' reads states in one direction; give the layer readout='state'")
            self.head = FixedLabels(finite.num_states, num_classes).to(finite.states)

    @property
    def num_outputs(self) -> int:
        """Number of classes."""
        return self.num_classes

    @property
    def has_fixed_labels(self) -> bool:
        """Whether every state has a fixed label (``head="halves"``)."""
        return isinstance(self.head, FixedLabels)

    def forward(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
        per_step: bool = False,
    ) -> Tensor:
        """Return logits (rows, classes), or (rows, time, classes) with one prediction after every step.

        In exact mode the logits are log p(y | x) of the path sum: their softmax is p, as for any logits.
        """
        if self.resolve_mode(mode) == "exact":
            return self.output_of_states(self.state_distributions(inputs, lengths, per_step=per_step))
        if self.has_fixed_labels:
            return self.output(self._transitions(inputs, lengths, noise, mode, per_step))
        return self.output(self.features(inputs, lengths, noise=noise, mode=mode, per_step=per_step))

    def output(self, features: Tensor) -> Tensor:
        """Return logits for what the head reads."""
        logits: Tensor = self.head(features)
        return self._scaled(logits)

    def output_of_states(self, pi: Tensor) -> Tensor:
        """Return log p(y | x) for a distribution over states, (…, k)."""
        tiny = torch.finfo(pi.dtype).tiny
        return (pi.clamp_min(tiny).log()[..., None] + self.state_logits()).logsumexp(dim=-2)

    def state_logits(self) -> Tensor:
        """Return log q(y | s_j) for each state: (k, classes)."""
        if isinstance(self.head, FixedLabels):
            return self.head.state_logits()
        logits = self._scaled(self.head(self._states_read()))
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)

    def check_targets(self, targets: Tensor, batch: int) -> Tensor:
        """Check that targets are integers 0 … num_classes - 1, one per sequence."""
        return check_labels(targets, batch, self.num_classes)

    def loss(
        self,
        inputs: Tensor,
        targets: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the mean cross-entropy, or the mean of the :attr:`criterion`.

        With several paths it is that of their mean probability: the criterion is given its logarithm as logits.
        ``targets`` may be soft labels, (sequences, classes) probabilities.
        """
        if not self._trains_on_paths:
            return self.loss_from_logits(self(inputs, lengths, noise=noise), targets, weights)
        logits = self._smoothed(self._path_outputs(inputs, lengths, noise))
        if self.criterion is None and targets.dim() == 1:
            losses = F.cross_entropy(logits, targets.repeat(self.paths), reduction="none")
            return self._mixture_loss(losses, weights)
        log_p = logits.log_softmax(dim=-1).unflatten(0, (self.paths, -1)).logsumexp(0) - math.log(self.paths)
        if self.criterion is None:
            return weighted_mean(F.cross_entropy(log_p, targets, reduction="none"), weights)
        return weighted_mean(self.criterion(log_p, targets), weights)

    def loss_from_logits(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the mean cross-entropy of logits (rows, classes), or the mean of the :attr:`criterion`."""
        logits = self._smoothed(logits)
        if self.criterion is not None:
            return weighted_mean(self.criterion(logits, targets), weights)
        if weights is None:
            return F.cross_entropy(logits, targets)
        return weighted_mean(F.cross_entropy(logits, targets, reduction="none"), weights)

    def _smoothed(self, logits: Tensor) -> Tensor:
        """Keep the label of a hard draw away from probability 0 and 1."""
        if not (self.has_fixed_labels and self.layer.mode == "hard"):
            return logits
        return logits.exp().lerp(torch.full_like(logits, 1 / self.num_classes), _LABEL_SMOOTHING).log()

    def _scaled(self, logits: Tensor) -> Tensor:
        """Divide by the temperature of the logits, outside training."""
        return logits if self.training or self.logit_temperature == 1 else logits / self.logit_temperature

    def _transitions(
        self, inputs: Tensor, lengths: Tensor | None, noise: Noise | None, mode: LayerMode | None, per_step: bool
    ) -> Tensor:
        """α after the last valid step, (rows, k), or after each: (rows, time, k)."""
        inputs, lengths = self.prepare(inputs, lengths)
        alpha = self.finite_state_layer.transitions(self.embed(inputs), lengths, noise=noise, mode=mode)
        return alpha if per_step else last_valid_step(alpha, lengths)

    def _arguments(self) -> dict[str, Any]:
        options = {"head": "halves"} if self.has_fixed_labels else {}
        scaling = {"logit_temperature": self.logit_temperature} if self.logit_temperature != 1 else {}
        return {"num_classes": self.num_classes, **options, **scaling}
