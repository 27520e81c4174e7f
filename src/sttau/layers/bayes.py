"""Bayes by Backprop: an LSTM with a Gaussian over every weight (Blundell et al., 2015; Fortunato et al., 2017)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau.engine import Noise, Weights, stacked
from sttau.layers.base import WEIGHTS, as_cell_weights, register_layer, samples_per_sequence
from sttau.layers.call import Call, LayerMode, Output
from sttau.layers.sampled_lstm import SampledLSTM


@register_layer
class BayesLSTM(SampledLSTM):
    """An LSTM whose weights are w = μ + σ ε with σ = log(1 + e^ρ), sampled once per forward pass.

    Arguments, shapes and results are those of ``nn.LSTM``, on whose fused kernels it runs. One draw of the weights
    serves all sequences and all steps of a pass; with a ``noise`` of several samples there is one draw per sample. The
    layer samples in eval mode too; ``mode="deterministic"`` uses μ. μ has the parameter names of ``nn.LSTM``
    (``weight_ih_l0``, …), so weights of a plain layer load with ``strict=False``; ρ is ``weight_ih_l0_rho``, …. Head
    and embedding of a model remain ordinary weights.

    Args:
        input_size: Features per step.
        hidden_size: d, the size of the hidden state.
        num_layers: Number of stacked layers.
        bias: Whether gates have biases.
        batch_first: Whether the batch comes before time in input and output.
        dropout: Dropout rate between layers, in training, as in ``nn.LSTM``.
        bidirectional: Whether to read from the end too; the two outputs are concatenated.
        mean: Center of the initial μ: each μ is drawn uniformly from ``mean`` ± 1/√d, as a weight of ``nn.LSTM`` from
            0 ± 1/√d. (The paper gives "μ = 0.01" and "μ = 0" without further detail.)
        rho: Initial ρ of every weight; -3 is σ = 0.049.
        prior_scale: s of the prior N(0, s²) on every weight.
        prior_mixture: (π, s₂) for the scale mixture π N(0, s²) + (1 - π) N(0, s₂²) of Blundell et al.
        device: Device of the weights.
        dtype: Dtype of the weights.

    Example:
        >>> layer = BayesLSTM(8, 32, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(4, 10, 8))
        >>> output.shape, h_n.shape, layer.kl_divergence().item() > 0
        (torch.Size([4, 10, 32]), torch.Size([1, 4, 32]), True)
    """

    mode: LayerMode = "sampled"
    shares_draws: ClassVar[bool] = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        mean: float = 0.0,
        rho: float = -3.0,
        prior_scale: float = 1.0,
        prior_mixture: Sequence[float] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        for name, number in (("mean", mean), ("rho", rho)):
            if not math.isfinite(number):
                raise ValueError(f"{name} must be finite, got {number}")
        if not (prior_scale > 0 and math.isfinite(prior_scale)):
            raise ValueError(f"prior_scale must be positive and finite, got {prior_scale}")
        if prior_mixture is not None:
            share, scale = prior_mixture
            if not (0 < share < 1 and scale > 0 and math.isfinite(scale)):
                raise ValueError(
                    f"prior_mixture must be (π, s₂) with 0 < π < 1 and s₂ > 0, got {tuple(prior_mixture)}; "
                    "leave it out for one Gaussian"
                )
            prior_mixture = [float(share), float(scale)]
        self.initial_mean = float(mean)
        self.initial_rho = float(rho)
        self.prior_scale = float(prior_scale)
        self.prior_mixture = prior_mixture
        for index, suffix in enumerate(self._suffixes()):
            for name, shape in self._parameter_shapes(index).items():
                for end in ("", "_rho"):
                    value = torch.empty(shape, device=device, dtype=dtype)
                    self.register_parameter(f"{name}_{suffix}{end}", nn.Parameter(value))
        self._epsilon: Tensor | None = None  # of the last pass, for the KL divergence from a mixture prior
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize μ and ρ."""
        bound = 1 / math.sqrt(self.hidden_size)
        for name, parameter in self.named_parameters():
            if name.endswith("_rho"):
                nn.init.constant_(parameter, self.initial_rho)
            else:
                nn.init.uniform_(parameter, self.initial_mean - bound, self.initial_mean + bound)

    def config(self) -> dict[str, Any]:
        """Return the arguments that construct a layer like this one, as plain values."""
        return {
            **super().config(),
            "mean": self.initial_mean,
            "rho": self.initial_rho,
            "prior_scale": self.prior_scale,
            "prior_mixture": self.prior_mixture,
        }

    # -- the distribution of the weights ------------------------------------------------------------------------------

    def kl_divergence(self) -> Tensor:
        """Return KL(q(w) ‖ p(w)) in nats, a scalar: once over all weights, however long the sequences.

        Closed form for a Gaussian prior. For a mixture it is log q(w) - log p(w) at the weights of the last pass, whose
        mean over draws is the divergence. Added to a mean loss over sequences, it must be divided by the number of
        training sequences.
        """
        mean, scale = (part.to(torch.promote_types(part.dtype, torch.float32)) for part in self._moments())
        if self.prior_mixture is None:
            ratio = (scale / self.prior_scale).square()
            return 0.5 * ((mean / self.prior_scale).square() + ratio - 1 - ratio.log()).sum()
        epsilon = self._epsilon
        if epsilon is None or epsilon.device != mean.device:
            epsilon = torch.randn_like(mean)
        epsilon = epsilon.to(mean.dtype)
        weight = mean + scale * epsilon
        share, other = self.prior_mixture
        parts = [
            math.log(portion / s) - 0.5 * (weight / s).square()
            for portion, s in ((share, self.prior_scale), (1 - share, other))
        ]
        posterior = -scale.log() - 0.5 * epsilon.square()
        return (posterior - torch.logaddexp(*parts)).sum()  # the constants √2π cancel

    def draw(self, noise: Noise | None = None, row: int = 0, mode: LayerMode | None = None) -> dict[str, Tensor]:
        """Return the weights that a pass uses, by name.

        Args:
            noise: Noise of the draw; fresh noise from PyTorch's generator by default.
            row: Row of the noise; rows of one sample share their weights.
            mode: ``deterministic`` for μ.
        """
        weights, scale = self._moments()
        if self.resolve_mode(mode) == "sampled":
            size, dtype = len(weights), weights.dtype
            epsilon = torch.randn_like(weights) if noise is None else noise.normal(row, size, dtype)
            if self.prior_mixture is not None:
                self._epsilon = epsilon
            weights = torch.addcmul(weights, scale, epsilon)
        shapes = {name: self.weight(name).shape for name in self._names()}
        parts = weights.split([shape.numel() for shape in shapes.values()])  # views of one tensor, as cuDNN needs
        return {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}

    def _moments(self) -> tuple[Tensor, Tensor]:
        """μ and σ of all weights, each as one vector."""
        mean, rho = (torch.cat([self.weight(name + end).flatten() for name in self._names()]) for end in ("", "_rho"))
        return mean, F.softplus(rho)

    # -- running --------------------------------------------------------------------------------------------------

    def cell_weights(self, noise: Noise) -> Weights:
        """Return one draw of the weights."""
        return as_cell_weights(self.draw(noise), self.hidden_size)

    def stacked_parts(self, x: Tensor, noise: Noise | None) -> list[stacked.Part]:
        """Return one network per sample of the noise."""
        samples = 1 if noise is None else samples_per_sequence(noise, len(x))
        drawn = (self.draw(noise, sample * len(x)) for sample in range(samples))
        return [stacked.Part(x, stacked.Weights(*(weights[f"{name}_l0"] for name in WEIGHTS))) for weights in drawn]

    def _run_samples(self, x: Tensor, call: Call) -> Output:
        batch, lengths = x.shape[0], call.lengths
        one = call.noise is None or call.mode == "deterministic"
        samples = 1 if call.noise is None or one else samples_per_sequence(call.noise, batch)
        results = [
            self._fused(x, call, lengths, self.draw(call.noise, sample * batch, call.mode)) for sample in range(samples)
        ]
        outputs, hiddens, memories = zip(*results, strict=True)
        return Output(torch.cat(outputs), torch.cat(hiddens, dim=1), torch.cat(memories, dim=1))
