"""A GRU that carries the mean and the variance of its hidden state instead of samples (Hwang et al., 2019)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau.engine import Noise, backend
from sttau.layers.base import concatenate, register_layer, samples_per_sequence
from sttau.layers.call import Call, LayerMode, Output
from sttau.layers.lstm_gru import GRULayer
from sttau.padding import clear_padding, last_valid_step, reverse_steps

#: ζ, with which sigmoid(x) is about Φ(√ζ x).
ZETA = math.pi / 8


class Moments(NamedTuple):
    """Mean and variance of independent Gaussians."""

    mean: Tensor
    variance: Tensor

    def __mul__(self, other: Moments) -> Moments:  # type: ignore[override]
        """The product of two independent values."""
        (m, v), (n, w) = self, other
        return Moments(m * n, v * w + v * n.square() + w * m.square())

    def __add__(self, other: Moments) -> Moments:  # type: ignore[override]
        """The sum of two independent values."""
        return Moments(self.mean + other.mean, self.variance + other.variance)


def sigmoid(x: Moments) -> Moments:
    """Approximate mean s and variance s (1 - s) (1 - 1 / r) of a logistic function (Daunizeau, 2017).

    Here s is the function at m / r, and r = √(1 + π v / 8). Unlike the formulas of Hwang et al., the variance is 0
    where that of x is. 1 - s and 1 - 1 / r are computed without differences of numbers that are about equal.

    Example:
        >>> mean, variance = sigmoid(Moments(torch.tensor(0.0), torch.tensor(1.0)))
        >>> mean.item(), round(variance.item(), 3)  # 0.5 and 0.043 by integration
        (0.5, 0.038)
    """
    root = (1 + ZETA * x.variance).sqrt()
    scaled = x.mean / root
    mean = scaled.sigmoid()
    return Moments(mean, mean * (-scaled).sigmoid() * (ZETA * x.variance / (root * (root + 1))))


def tanh(x: Moments) -> Moments:
    """Approximate mean and variance of a hyperbolic tangent, 2 sigmoid(2 x) - 1."""
    mean, variance = sigmoid(Moments(2 * x.mean, 4 * x.variance))
    return Moments(2 * mean - 1, 4 * variance)


@register_layer
class SamplingFreeGRU(GRULayer):
    """A GRU with a Gaussian over every weight whose uncertainty is propagated in closed form, without samples.

    Every value is a mean and a variance: through products and sums of independent values exactly, through sigmoid and
    tanh by moment matching. The recurrence is run once. The head reads draws from the Gaussian of the output, so that
    ``predict`` has an epistemic part; ``mode="deterministic"`` reads the mean. Correlations between units, and between
    steps, which share their weights, are neglected, so the variance is smaller than that of sampled weights. There is
    no fused kernel: steps are computed one by one in PyTorch.

    Arguments, shapes and results are those of ``nn.GRU``; means have its parameter names, and standard deviations are
    log(1 + e^ρ), with ρ in ``weight_ih_l0_rho``, ….

    Args:
        input_size: Features per step.
        hidden_size: d, the size of the hidden state.
        num_layers: Number of stacked layers.
        bias: Whether gates have biases.
        batch_first: Whether the batch comes before time in input and output.
        dropout: Dropout rate between layers, in training.
        bidirectional: Whether to read from the end too; the two outputs are concatenated.
        rho: Initial ρ of every weight; -3 is a standard deviation of 0.049.
        prior_scale: s of the prior N(0, s²), from which training keeps the distribution of the weights close.
        device: Device of the weights.
        dtype: Dtype of the weights.

    Example:
        >>> layer = SamplingFreeGRU(8, 32, batch_first=True)
        >>> x = torch.randn(4, 10, 8)
        >>> mean, variance = layer.moments(x)
        >>> mean.shape, bool((variance > 0).all())
        (torch.Size([4, 10, 32]), True)
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
        rho: float = -3.0,
        prior_scale: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        if not math.isfinite(rho):
            raise ValueError(f"rho must be finite, got {rho}")
        if not (prior_scale > 0 and math.isfinite(prior_scale)):
            raise ValueError(f"prior_scale must be positive and finite, got {prior_scale}")
        self.initial_rho, self.prior_scale = float(rho), float(prior_scale)
        width = 3 * hidden_size
        for index, suffix in enumerate(self._suffixes()):
            shapes = {"weight_ih": (width, self._input_features(index)), "weight_hh": (width, hidden_size)}
            shapes |= {"bias_ih": (width,), "bias_hh": (width,)} if bias else {}  # type: ignore[dict-item]
            for name, shape in shapes.items():
                for end in ("", "_rho"):
                    value = torch.empty(shape, device=device, dtype=dtype)
                    self.register_parameter(f"{name}_{suffix}{end}", nn.Parameter(value))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize means uniformly in ±1/√d, as ``nn.GRU`` does, and ρ with its given value."""
        bound = 1 / math.sqrt(self.hidden_size)
        for name, parameter in self.named_parameters():
            if name.endswith("_rho"):
                nn.init.constant_(parameter, self.initial_rho)
            else:
                nn.init.uniform_(parameter, -bound, bound)

    def config(self) -> dict[str, Any]:
        """Return the arguments that construct a layer like this one, as plain values."""
        return super().config() | {"rho": self.initial_rho, "prior_scale": self.prior_scale}

    def kl_divergence(self) -> Tensor:
        """Return KL(q(w) ‖ p(w)) in nats, over all weights."""
        parts = []
        for name, mean in self.named_parameters():
            if not name.endswith("_rho"):
                center, rho = _widened(mean), _widened(self.weight(f"{name}_rho"))
                ratio = (F.softplus(rho) / self.prior_scale).square()
                parts.append(0.5 * ((center / self.prior_scale).square() + ratio - 1 - ratio.log()).sum())
        return torch.stack(parts).sum()

    def moments(self, inputs: Tensor, lengths: Tensor | None = None) -> Moments:
        """Return mean and variance of the hidden state after each step of (batch, time, input_size)."""
        output, _ = self._propagate(inputs, Call("deterministic", lengths))
        return _in_dtype(output, inputs.dtype)

    def _run(self, inputs: Tensor, call: Call) -> Output:
        x = inputs if call.embedding is None else F.embedding(inputs, call.embedding)
        output, moments = self._propagate(x, call)
        ends = _in_dtype(moments, x.dtype)
        if call.steps == "last":
            every = (last_valid_step(part, call.lengths, self.num_directions)[:, None] for part in output)
            output = Moments(*every)
        if call.mode == "deterministic":
            return Output(output.mean.to(x.dtype), *ends)
        noise = Noise.fresh(len(x), x.device) if call.noise is None else call.noise
        samples = samples_per_sequence(noise, len(x))
        drawn = replace(noise, first_step=0).uniform(0, 1, self.output_size)  # the same at every step
        normal = torch.special.ndtri(drawn.double()).to(output.mean.dtype)
        mean, deviation = (part.repeat(samples, 1, 1) for part in (output.mean, _root(output.variance)))
        return Output((mean + deviation * normal).to(x.dtype), *(end.repeat(1, samples, 1) for end in ends))

    def _propagate(self, x: Tensor, call: Call) -> tuple[Moments, Moments]:
        """Moments of the output, (batch, time, d), and after the last step of each layer and direction.

        They are at least float32: in half precision, and under autocast, small variances would be lost.
        """
        dtype = x.dtype if backend.is_mixed(x.device) else self.dtype
        lengths = self._check_batch(x, dtype, x.shape, call.lengths)
        lengths = None if lengths is None else lengths.to(x.device)
        with backend.full_precision(x.device):
            return self._layers(_widened(clear_padding(x, lengths)).transpose(0, 1), lengths, call)

    def _layers(self, x: Tensor, lengths: Tensor | None, call: Call) -> tuple[Moments, Moments]:
        """As :meth:`_propagate`, for (time, batch, features)."""
        read = Moments(x, torch.zeros_like(x))
        ends = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self.num_directions):
                index = layer * self.num_directions + direction
                start = None if call.hidden is None else self._start(call, index)
                given = Moments(*(reverse_steps(part, lengths) for part in read)) if direction else read
                made = self._steps(given, self._suffixes()[index], start)
                ends.append(Moments(*(last_valid_step(part.transpose(0, 1), lengths) for part in made)))
                outputs.append(Moments(*(reverse_steps(part, lengths) for part in made)) if direction else made)
            read = Moments(*(concatenate(parts) for parts in zip(*outputs, strict=True)))
            if layer < self.num_layers - 1 and self.training and self.dropout:
                mask = F.dropout(torch.ones_like(read.mean), self.dropout)
                read = Moments(read.mean * mask, read.variance * mask.square())
        output = Moments(*(clear_padding(part.transpose(0, 1), lengths) for part in read))
        return output, Moments(*(torch.stack(parts) for parts in zip(*ends, strict=True)))

    def _start(self, call: Call, index: int) -> Moments:
        assert call.hidden is not None
        mean = _widened(call.hidden[index])
        return Moments(mean, torch.zeros_like(mean) if call.memory is None else _widened(call.memory[index]))

    def _steps(self, x: Moments, suffix: str, start: Moments | None) -> Moments:
        """Moments of h after every step of (time, batch, features)."""
        projected = _linear(x, self._affine("ih", suffix))
        recurrent = self._affine("hh", suffix)
        zeros = x.mean.new_zeros(x.mean.shape[1], self.hidden_size, dtype=projected.mean.dtype)
        hidden = Moments(zeros, zeros) if start is None else start
        means, variances = [], []
        for mean, variance in zip(*projected, strict=True):
            hidden = _step(Moments(mean, variance), hidden, recurrent)
            means.append(hidden.mean)
            variances.append(hidden.variance)
        return Moments(torch.stack(means), torch.stack(variances))

    def _affine(self, kind: str, suffix: str) -> Affine:
        """The moments of an affine function's weights."""

        def moments(name: str) -> Moments:
            full = f"{name}_{kind}_{suffix}"
            mean, rho = _widened(self.weight(full)), _widened(self.weight(f"{full}_rho"))
            return Moments(mean, F.softplus(rho).square())

        weight, bias = moments("weight"), moments("bias") if self.bias else None
        second = weight.variance + weight.mean.square()
        return Affine(weight.mean, weight.variance, second, *((None, None) if bias is None else bias))


class Affine(NamedTuple):
    """Moments of the weights and biases of an affine function."""

    mean: Tensor
    variance: Tensor
    second: Tensor  # of the weights: variance + mean²
    bias_mean: Tensor | None
    bias_variance: Tensor | None


def _linear(x: Moments, weights: Affine) -> Moments:
    """W x + b, of independent values and weights."""
    mean = F.linear(x.mean, weights.mean, weights.bias_mean)
    variance = F.linear(x.variance, weights.second, weights.bias_variance)
    return Moments(mean, variance + F.linear(x.mean.square(), weights.variance))


def _step(x: Moments, hidden: Moments, weights: Affine) -> Moments:
    """One step of the GRU, for the projected input."""
    x_r, x_z, x_n = _chunk(x)
    h_r, h_z, h_n = _chunk(_linear(hidden, weights))
    z = sigmoid(x_z + h_z)
    n = tanh(x_n + sigmoid(x_r + h_r) * h_n)
    return Moments(1 - z.mean, z.variance) * n + z * hidden


def _chunk(x: Moments) -> list[Moments]:
    """The three gates."""
    return [Moments(mean, variance) for mean, variance in zip(*(part.chunk(3, dim=-1) for part in x), strict=True)]


def _widened(x: Tensor) -> Tensor:
    """The same in at least float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _in_dtype(moments: Moments, dtype: torch.dtype) -> Moments:
    return Moments(*(part.to(dtype) for part in moments))


def _root(variance: Tensor) -> Tensor:
    """Standard deviation, whose gradient is finite where the variance is 0."""
    return variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
