"""The sampling-free GRU as ONNX operations; see :mod:`sttau.layers.sampling_free` for the formulas."""

from __future__ import annotations

from typing import NamedTuple

import torch

from sttau.export.graph import Graph, Value
from sttau.export.layers.base import LayerForm
from sttau.layers import SamplingFreeGRU
from sttau.layers.sampling_free import ZETA, Affine


class Moments(NamedTuple):
    """Mean and variance of independent Gaussians."""

    mean: Value
    variance: Value

    def __mul__(self, other: Moments) -> Moments:  # type: ignore[override]
        """The product of two independent values."""
        (m, v), (n, w) = self, other
        return Moments(m * n, v * w + v * n * n + w * m * m)

    def __add__(self, other: Moments) -> Moments:  # type: ignore[override]
        """The sum of two independent values."""
        return Moments(self.mean + other.mean, self.variance + other.variance)


class SamplingFreeForm(LayerForm[SamplingFreeGRU, Moments]):
    """A sampling-free GRU; the head reads draws from the Gaussian of its last output, or the mean."""

    def last(self) -> Value:  # noqa: D102
        g, inputs, draws = self.graph, self.batch.inputs, self.batch.draws
        last = self.through(Moments(inputs, inputs * 0.0))
        if draws is None:
            return last.mean
        drawn = g.squeeze(draws.gaussian(g.constant([0], "int64"), 0, self.layer.output_size), 0)
        return last.mean + g.op("Sqrt", last.variance) * drawn

    def run(self, index: int, inputs: Moments, reverse: bool) -> tuple[Moments, Moments]:  # noqa: D102
        g, layer = self.graph, self.layer
        suffix = layer._suffixes()[index]
        x = _linear(g, inputs, layer._affine("ih", suffix))
        recurrent = layer._affine("hh", suffix)

        def step(carried: list[Value], given: list[Value]) -> tuple[list[Value], list[Value]]:
            hidden = Moments(*carried)
            x_r, x_z, x_n = _split(g, Moments(*given[:2]))
            h_r, h_z, h_n = _split(g, _linear(g, hidden, recurrent))
            z = _sigmoid(g, x_z + h_z)
            new = _tanh(g, x_n + _sigmoid(g, x_r + h_r) * h_n)
            after = Moments(g.op("Neg", z.mean) + 1.0, z.variance) * new + z * hidden
            return [g.where(given[2], now, before) for now, before in zip(after, carried, strict=True)], list(after)

        zeros = g.expand(g.constant(torch.zeros(1, 1, layer.hidden_size)), 1, g.size(inputs.mean, 2), 1)
        ends, outputs = g.scan(step, [zeros, zeros], [*x, self.batch.valid], outputs=2, reverse=reverse)
        return Moments(*ends), Moments(*outputs)

    def join(self, directions: list[Moments]) -> Moments:  # noqa: D102
        if len(directions) == 1:
            return directions[0]
        return Moments(*(self.graph.op("Concat", *parts, axis=-1) for parts in zip(*directions, strict=True)))


def _linear(g: Graph, x: Moments, weights: Affine) -> Moments:
    """W x + b, of independent values and weights."""
    mean = x.mean @ g.constant(weights.mean.T)
    variance = x.variance @ g.constant(weights.second.T) + (x.mean * x.mean) @ g.constant(weights.variance.T)
    if weights.bias_mean is not None and weights.bias_variance is not None:
        mean, variance = mean + g.constant(weights.bias_mean), variance + g.constant(weights.bias_variance)
    return Moments(mean, variance)


def _sigmoid(g: Graph, x: Moments) -> Moments:
    root = g.op("Sqrt", x.variance * ZETA + 1.0)
    mean = g.op("Sigmoid", x.mean / root)
    return Moments(mean, mean * (g.op("Neg", mean) + 1.0) * ((root - 1.0) / root))


def _tanh(g: Graph, x: Moments) -> Moments:
    mean, variance = _sigmoid(g, Moments(x.mean * 2.0, x.variance * 4.0))
    return Moments(mean * 2.0 - 1.0, variance * 4.0)


def _split(g: Graph, x: Moments) -> list[Moments]:
    """The three gates."""
    return [Moments(*pair) for pair in zip(g.split(x.mean, 3), g.split(x.variance, 3), strict=True)]


FORMS = {SamplingFreeGRU: SamplingFreeForm}
