"""Real values for a sequence, with or without a predicted variance."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau.checks import as_integer, check_targets
from sttau.engine import Noise
from sttau.layers import LayerMode, as_layer
from sttau.models.base import SequenceModel, Task


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
    ) -> None:
        num_outputs = as_integer("num_outputs", num_outputs, 1)
        if as_integer("paths", paths, 1) > 1 and not (variance and as_layer(layer).can_sample):
            raise ValueError("paths needs variance=True and a layer that samples: a mixture of different Gaussians")
        outputs = num_outputs * (2 if variance else 1)
        super().__init__(layer, outputs, embedding, dropout, word_dropout, paths, input_noise)
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
        if self.resolve_mode(mode) != "exact":
            return self._split(self.head(self.features(inputs, lengths, noise=noise, mode=mode, per_step=per_step)))
        pi = self.chain(inputs, lengths).distributions
        pi = pi if per_step else pi[:, -1]
        mean, variance = self.state_outputs()
        center = pi @ mean
        if variance is None:
            return Gaussian(center, None)
        return Gaussian(center, pi @ variance + (pi @ mean.square() - center.square()).clamp_min(0))

    def state_outputs(self) -> Gaussian:
        """Return the output in each state: (k, outputs)."""
        outputs: Tensor = self.head(self.finite_state_layer.states)
        return self._split(outputs.to(torch.promote_types(outputs.dtype, torch.float32)))

    def _split(self, outputs: Tensor) -> Gaussian:
        if not self.variance:
            return Gaussian(outputs, None)
        mean, raw = outputs.chunk(2, dim=-1)
        return Gaussian(mean, F.softplus(raw) + 1e-6)

    def check_targets(self, targets: Tensor, batch: int) -> Tensor:
        """Check that targets are finite floats, (batch,) or (batch, num_outputs)."""
        return check_targets(targets, batch, self.num_outputs)

    def loss(
        self, inputs: Tensor, targets: Tensor, lengths: Tensor | None = None, *, noise: Noise | None = None
    ) -> Tensor:
        """Return the mean squared error, or with a variance head the mean negative log-likelihood."""
        if self._trains_on_paths:

            def losses(output: Gaussian, paths: int) -> Tensor:
                mean, variance = output
                assert variance is not None
                return F.gaussian_nll_loss(mean, targets.repeat(paths, 1), variance, full=True, reduction="none")

            return self._mixture_loss(inputs, lengths, noise, losses)
        mean, variance = self(inputs, lengths, noise=noise)
        targets = targets.view_as(mean)
        if variance is None:
            return F.mse_loss(mean, targets)
        return F.gaussian_nll_loss(mean, targets, variance, full=True)

    def _arguments(self) -> dict[str, Any]:
        return {"num_outputs": self.num_outputs, "variance": self.variance}
