"""Bayesian layers as ONNX operations: weights are drawn once per sample."""

from __future__ import annotations

from sttau.export.layers.base import Direction, RecurrentForm
from sttau.layers import BayesLSTM


class BayesForm(RecurrentForm[BayesLSTM]):
    """An LSTM whose weights are independent Gaussians, or their means."""

    def weights(self) -> list[Direction]:
        """w = μ + σ ε for every sample: matrices (samples, in, out), biases (samples, 1, out)."""
        if self.mode != "sampled":
            return super().weights()
        g, layer = self.graph, self.layer
        mean, scale = layer._moments()
        drawn = g.constant(mean) + g.constant(scale) * self.batch.random.normal(len(mean))
        named, place = {}, 0
        for name in layer._names():
            shape = layer.get_parameter(name).shape
            size = shape if len(shape) == 2 else (1, -1)
            part = g.reshape(g.slice(drawn, place, place + shape.numel(), 1), 0, *size)
            named[name] = g.op("Transpose", part, perm=[0, 2, 1]) if len(shape) == 2 else part
            place += shape.numel()
        return self.sort(named)


FORMS = {BayesLSTM: BayesForm}
