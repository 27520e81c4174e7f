"""Bayes by Backprop: an LSTM with a Gaussian over every weight (Blundell et al., 2015; Fortunato et al., 2017)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau.engine import Noise, stacked
from sttau.layers.stochastic import WEIGHTS, LayerMode, PlainStochasticLSTM, check_rows


class BayesLSTM(PlainStochasticLSTM):
    """An LSTM whose weights are w = μ + σ ε with σ = log(1 + e^ρ), drawn once for a pass over whole sequences.

    Arguments, shapes and results are those of ``nn.LSTM``, on whose fused code it runs. One draw serves all sequences
    and all steps of a pass; with a ``noise`` of several samples there is one draw for each sample. Drawing goes on in
    eval mode: it is the model; ``mode="deterministic"`` runs on μ. μ has the names of ``nn.LSTM`` (``weight_ih_l0``,
    …), so weights of a plain layer load with ``strict=False``; ρ stands beside it (``weight_ih_l0_rho``). Head and
    embedding of a model remain ordinary weights.

    Args:
        input_size: features a step.
        hidden_size: d.
        num_layers: stacked layers.
        bias: whether gates have biases.
        batch_first: whether the batch stands before time in input and output.
        dropout: between layers, in training, as in ``nn.LSTM``.
        bidirectional: also read from the end; the two halves are concatenated.
        mean: the center of μ at the start: each μ is drawn uniformly from ``mean`` ± 1/√d, as a weight of ``nn.LSTM``
            from 0 ± 1/√d. (The paper gives "μ = 0.01" and "μ = 0" without saying more.)
        rho: ρ at the start, for every weight; -3 is σ = 0.049.
        prior_scale: s of the prior N(0, s²) on every weight.
        prior_mixture: (π, s₂) for the scale mixture π N(0, s²) + (1 - π) N(0, s₂²) of Blundell et al.
        device: where the weights live.
        dtype: of the weights.

    Example:
        >>> layer = BayesLSTM(8, 32, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(4, 10, 8))
        >>> output.shape, h_n.shape, layer.kl_divergence().item() > 0
        (torch.Size([4, 10, 32]), torch.Size([1, 4, 32]), True)
    """

    modes: ClassVar[tuple[LayerMode, ...]] = ("sampled", "deterministic")
    mode: LayerMode = "sampled"

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
                raise ValueError(f"{name} must be a finite number, got {number}")
        if not (prior_scale > 0 and math.isfinite(prior_scale)):
            raise ValueError(f"prior_scale must be a positive number, got {prior_scale}")
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
        width = 4 * hidden_size
        for index, suffix in enumerate(self._suffixes()):
            features = input_size if index < self.num_directions else hidden_size * self.num_directions
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (width, features), "weight_hh": (width, hidden_size)}
            if bias:
                shapes |= {"bias_ih": (width,), "bias_hh": (width,)}
            for name, shape in shapes.items():
                for end in ("", "_rho"):
                    value = torch.empty(shape, device=device, dtype=dtype)
                    self.register_parameter(f"{name}_{suffix}{end}", nn.Parameter(value))
        self._epsilon: Tensor | None = None  # of the last pass, for the divergence from a mixture
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw μ anew and put ρ to its first value."""
        bound = 1 / math.sqrt(self.hidden_size)
        for name, parameter in self.named_parameters():
            if name.endswith("_rho"):
                nn.init.constant_(parameter, self.initial_rho)
            else:
                nn.init.uniform_(parameter, self.initial_mean - bound, self.initial_mean + bound)

    def config(self) -> dict[str, Any]:
        """The arguments that make a layer like this one, as plain values."""
        return {
            "input_size": self.input_size,
            "hidden_size": self.hidden_size,
            "num_layers": self.num_layers,
            "bias": self.bias,
            "batch_first": self.batch_first,
            "dropout": self.dropout,
            "bidirectional": self.bidirectional,
            "mean": self.initial_mean,
            "rho": self.initial_rho,
            "prior_scale": self.prior_scale,
            "prior_mixture": self.prior_mixture,
        }

    # -- the law of the weights --------------------------------------------------------------------------------------

    def kl_divergence(self) -> Tensor:
        """KL(q(w) ‖ p(w)) in nats, a scalar: over all weights once, however long the sequences.

        Closed form for a Gaussian prior. For a mixture it is log q(w) - log p(w) at the weights of the last pass, whose
        mean over draws is the divergence. Beside a mean loss over sequences it is to be divided by the number of
        sequences trained on.
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
        """Weights by their names: those that a pass runs on.

        Args:
            noise: names the draw; a fresh one, from PyTorch's generator, without it.
            row: of the noise; rows of one sample share their weights.
            mode: ``deterministic`` for μ.
        """
        weights, scale = self._moments()
        if self._chosen(mode) == "sampled":
            size, dtype = len(weights), weights.dtype
            epsilon = torch.randn_like(weights) if noise is None else noise.normal(row, size, dtype)
            if self.prior_mixture is not None:
                self._epsilon = epsilon
            weights = torch.addcmul(weights, scale, epsilon)
        shapes = {name: self.get_parameter(name).shape for name in self._names()}
        parts = weights.split([shape.numel() for shape in shapes.values()])  # of one piece of memory, as cuDNN wants
        return {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}

    def _moments(self) -> tuple[Tensor, Tensor]:
        """μ and σ of all weights, each as one vector."""
        mean, rho = (
            torch.cat([self.get_parameter(name + end).flatten() for name in self._names()]) for end in ("", "_rho")
        )
        return mean, F.softplus(rho)

    # -- running it --------------------------------------------------------------------------------------------------

    def parts(self, x: Tensor, noise: Noise) -> list[stacked.Part]:
        """One network for each sample of the noise."""
        drawn = (self.draw(noise, run * len(x)) for run in range(check_rows(noise, len(x))))
        return [stacked.Part(x, stacked.Weights(*(weights[f"{name}_l0"] for name in WEIGHTS))) for weights in drawn]

    def _run(
        self,
        x: Tensor,
        hidden: Tensor | None,
        memory: Tensor | None,
        lengths: Tensor | None,
        noise: Noise | None,
        mode: LayerMode | None,
        final: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Output, h_n and c_n of all samples; ``final`` says whether the last two will be read."""
        batch, lengths = x.shape[0], self._checked(x, self._accepted(x), x.shape, lengths)
        runs = 1 if noise is None or self._chosen(mode) == "deterministic" else check_rows(noise, batch)
        results = [
            self._fused(x, hidden, memory, lengths, self.draw(noise, run * batch, mode), final) for run in range(runs)
        ]
        outputs, hiddens, memories = zip(*results, strict=True)
        return torch.cat(outputs), torch.cat(hiddens, dim=1), torch.cat(memories, dim=1)
