"""Layers with states as ONNX operations: sampled, deterministic, or exact."""

from __future__ import annotations

import torch
from torch import Tensor

from sttau.export.graph import Graph, Value
from sttau.export.layers.base import Batch, RecurrentForm, gru
from sttau.layers import FiniteStateRNN


class FiniteStateForm(RecurrentForm[FiniteStateRNN]):
    """An LSTM or GRU whose hidden state is drawn from learned states."""

    def initial(self, index: int) -> Tensor | None:  # noqa: D102
        return self.layer._weights(index).states[0] if self.layer.initial == "first" else None

    def peephole(self, index: int) -> Tensor | None:  # noqa: D102
        return self.layer._weights(index).peephole

    def noise(self, index: int) -> list[Value]:  # noqa: D102
        if self.mode == "deterministic":
            return []
        return [self.batch.random.gumbel(self.batch.steps, index, self.layer.num_states)]

    def transition(self, index: int, u: Value, noise: list[Value]) -> tuple[Value, Value]:  # noqa: D102
        g, own = self.graph, self.layer._weights(index)
        alpha = _alpha(g, u @ g.constant(own.states.T), own.temperature, noise, self.mode)
        after = alpha @ g.constant(own.states)
        if self._reads_alpha(index):
            return after, alpha
        return after, after if self.layer.readout == "state" else u

    def read_size(self, index: int) -> int:  # noqa: D102
        return self.layer.num_states if self._reads_alpha(index) else self.layer.hidden_size

    def _reads_alpha(self, index: int) -> bool:
        return self.transitions and index >= (self.layer.num_layers - 1) * self.layer.num_directions


def last_distribution(layer: FiniteStateRNN, batch: Batch) -> Value:
    """Return the distribution of the state after the last valid step, (batch, k): the sum over all paths.

    The chain begins in h_0, which is treated as one more state that is never entered again.
    """
    g, weights = batch.graph, layer._working_weights()
    states = weights.states
    begin = states[:1] if layer.initial == "first" else torch.zeros_like(states[:1])
    hidden = torch.cat([begin, states])
    recurrent = torch.nn.functional.linear(hidden, weights.recurrent, weights.recurrent_bias)
    h, r, s = g.constant(hidden), g.constant(recurrent), g.constant(states.T)
    x = g.op("Transpose", batch.inputs, perm=[0, 2, 1, 3]) @ g.constant(weights.input.T)  # (time, batch, 1, 3 d)
    x = x if weights.input_bias is None else x + g.constant(weights.input_bias)
    k = len(states)
    pi = g.expand(g.constant([[1.0] + [0.0] * k]), batch.rows[1], 1)

    def step(carried: list[Value], given: list[Value]) -> tuple[list[Value], list[Value]]:
        matrix = g.op("Softmax", gru(g, given[0], r, h) @ s, axis=-1)  # (batch, k + 1, k)
        after = g.squeeze(g.unsqueeze(carried[0], 1) @ matrix, 1)
        after = g.op("Concat", g.slice(carried[0], 0, 1, 1) * 0.0, after / g.sum(after, -1, keep=True), axis=-1)
        return [g.where(given[1], after, carried[0])], []

    ends, _ = g.scan(step, [pi], [x, batch.valid])
    return g.slice(ends[0], 1, k + 1, 1)


def _alpha(g: Graph, logits: Value, temperature: Tensor, gumbel: list[Value], mode: str) -> Value:
    perturbed = logits + gumbel[0] if gumbel else logits
    if mode != "hard":
        return g.op("Softmax", perturbed / g.constant(temperature), axis=-1)
    best = g.op("ArgMax", perturbed, kind="int64", axis=-1, keepdims=1)
    places = g.range(g.size(perturbed, 2))
    return g.cast(g.op("Equal", best, places, kind="bool"), "float32")


FORMS = {FiniteStateRNN: FiniteStateForm}
