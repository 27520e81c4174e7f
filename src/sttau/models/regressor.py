"""Real values for a sequence, with or without a predicted variance."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau.checks import as_integer, check_targets
from sttau.engine import Noise
from sttau.layers import LayerMode, as_layer
from sttau.models.base import SequenceModel
from sttau.models.criterion import weighted_mean
from sttau.models.predictor import Task
from sttau.models.preprocessing import Preprocessing, TargetScaling


class Gaussian(NamedTuple):
    """Output of a regressor: a mean and, with a variance head, a variance."""

    mean: Tensor
    variance: Tensor | None


class SequenceRegressor(SequenceModel):
    """Real values for a sequence, with or without a predicted variance.

    Args:
        layer: Any layer of ``sttau.layers.LAYERS``: ST-τ, a baseline, ``nn.LSTM`` or ``nn.GRU``.
        num_outputs: Values predicted per sequence.
        variance: Whether to predict the noise of the data too, trained with the Gaussian likelihood; without it the
            loss is the squared error.
        embedding: Embedding of token ids; None for features.
        dropout: Dropout rate of the token vectors and of the head's input, in training.
        word_dropout: Rate at which tokens are replaced by the unknown token (id 1), in training.
        paths: Number of samples whose mixture the likelihood is computed from, in training; needs ``variance``. With
            1, every sample must explain the data by itself and learns to be overconfident.
        input_noise: Standard deviation of noise added to features, in training.
        preprocessing: Scaling, missing values and patches of the features; None to read them as they are.
        target_scaling: Scale of the targets; None where they have about mean 0 and standard deviation 1 already.

    Example:
        >>> from sttau import STTauGRU
        >>> model = SequenceRegressor(STTauGRU(2, 16, num_states=4), variance=True)
        >>> mean, variance = model(torch.randn(4, 10, 2))
        >>> mean.shape, bool((variance > 0).all())
        (torch.Size([4, 1]), True)
    """

    task: ClassVar[Task] = "regression"

    def __init__(
        self,
        layer: nn.Module,
        num_outputs: int = 1,
        variance: bool = False,
        embedding: nn.Embedding | None = None,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        paths: int = 1,
        input_noise: float = 0.0,
        preprocessing: Preprocessing | None = None,
        target_scaling: TargetScaling | None = None,
    ) -> None:
        num_outputs = as_integer("num_outputs", num_outputs, 1)
        if as_integer("paths", paths, 1) > 1 and not (variance and as_layer(layer).can_sample):
            raise ValueError("paths needs variance=True and a layer that samples: a mixture of different Gaussians")
        outputs = num_outputs * (2 if variance else 1)
        super().__init__(layer, outputs, embedding, dropout, word_dropout, paths, input_noise, preprocessing)
        if target_scaling is not None and len(target_scaling.offset) != num_outputs:
            raise ValueError(
                f"target_scaling is for {len(target_scaling.offset)} outputs, but num_outputs is {num_outputs}"
            )
        self.target_scaling = None if target_scaling is None else target_scaling.to(self.layer.device)
        self._num_outputs = num_outputs
        self.variance = variance

    @property
    def num_outputs(self) -> int:
        """Values predicted per sequence."""
        return self._num_outputs

    def forward(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
        per_step: bool = False,
    ) -> Gaussian:
        """Return mean and variance, each (rows, outputs), or (rows, time, outputs) with ``per_step``.

        In exact mode they are the mean and variance of the mixture over states: with a variance head the variance
        is the noise of the data plus the spread of the means, without it there is none.
        """
        if self.resolve_mode(mode) == "exact":
            return self.output_of_states(self.state_distributions(inputs, lengths, per_step=per_step))
        return self.output(self.features(inputs, lengths, noise=noise, mode=mode, per_step=per_step))

    def output(self, features: Tensor) -> Gaussian:
        """Return mean and variance for what the head reads."""
        return self._split(self.head(features))

    def output_of_states(self, pi: Tensor) -> Gaussian:
        """Return mean and variance of the mixture over states, (…, k)."""
        mean, variance = self.state_outputs()
        center = pi @ mean
        if variance is None:
            return Gaussian(center, None)
        return Gaussian(center, pi @ variance + (pi @ mean.square() - center.square()).clamp_min(0))

    def state_outputs(self) -> Gaussian:
        """Return the output in each state: (k, outputs)."""
        outputs: Tensor = self.head(self._states_read())
        return self._split(outputs.to(torch.promote_types(outputs.dtype, torch.float32)))

    def _split(self, outputs: Tensor) -> Gaussian:
        """Mean and variance in the units of the data."""
        mean, raw = outputs.chunk(2, dim=-1) if self.variance else (outputs, None)
        variance = None if raw is None else F.softplus(raw) + 1e-6
        if self.target_scaling is None:
            return Gaussian(mean, variance)
        offset, scale = self.target_scaling.offset, self.target_scaling.scale
        return Gaussian(mean * scale + offset, None if variance is None else variance * scale.square())

    def _standardize(self, output: Gaussian, targets: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Mean, variance and targets as the loss compares them."""
        if self.target_scaling is None:
            return *output, targets
        standardize, scale = self.target_scaling.standardize, self.target_scaling.scale
        variance = None if output.variance is None else output.variance / scale.square()
        return standardize(output.mean), variance, standardize(targets)

    def check_targets(self, targets: Tensor, batch: int) -> Tensor:
        """Check that targets are finite floats, (batch,) or (batch, num_outputs)."""
        return check_targets(targets, batch, self.num_outputs)

    def loss(
        self,
        inputs: Tensor,
        targets: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the mean squared error, or with a variance head the mean negative log-likelihood.

        In exact mode the likelihood is that of the mixture of one Gaussian per state. With a :attr:`criterion` it is
        the mean of that; with several paths or states, of the mean and variance of their mixture. With a
        ``target_scaling`` it is that of standardized targets.
        """
        if self.layer.mode == "exact" and self.variance and self.criterion is None:
            return self._loss_of_states(inputs, targets, lengths, weights)
        if self._trains_on_paths:
            output = self._path_outputs(inputs, lengths, noise)
            mean, variance, wanted = self._standardize(output, targets.repeat(self.paths, 1))
            assert variance is not None
            if self.criterion is None:
                losses = F.gaussian_nll_loss(mean, wanted, variance, full=True, reduction="none")
                return self._mixture_loss(losses, weights)
            mean, variance = (value.unflatten(0, (self.paths, -1)) for value in (mean, variance))
            variance = variance.mean(0) + mean.var(0, correction=0)
            mean, targets = mean.mean(0), wanted[: len(targets)]
        else:
            output = self(inputs, lengths, noise=noise)
            mean, variance, targets = self._standardize(output, targets.view_as(output.mean))
        if self.criterion is not None:
            return weighted_mean(self.criterion(Gaussian(mean, variance), targets), weights)
        reduction = "mean" if weights is None else "none"
        if variance is None:
            losses = F.mse_loss(mean, targets, reduction=reduction)
        else:
            losses = F.gaussian_nll_loss(mean, targets, variance, full=True, reduction=reduction)
        return losses if weights is None else weighted_mean(losses, weights)

    def _loss_of_states(
        self, inputs: Tensor, targets: Tensor, lengths: Tensor | None, weights: Tensor | None
    ) -> Tensor:
        """Mean of −log Σ_j π_j N(y; μ_j, σ_j²) / outputs, the outputs being independent given the state."""
        pi = self.state_distributions(inputs, lengths, per_step=False)
        outputs = self.state_outputs()
        mean, variance, wanted = self._standardize(outputs, targets.reshape(len(targets), 1, self.num_outputs))
        assert variance is not None
        losses = 0.5 * ((wanted - mean).square() / variance + variance.log() + math.log(2 * math.pi))
        log_pi = pi.clamp_min(torch.finfo(pi.dtype).tiny).log()
        losses = -(log_pi - losses.sum(-1)).logsumexp(-1) / self.num_outputs
        return losses.mean() if weights is None else weighted_mean(losses, weights)

    def _arguments(self) -> dict[str, Any]:
        scaling = {} if self.target_scaling is None else {"target_scaling": True}
        return {"num_outputs": self.num_outputs, "variance": self.variance, **scaling}
