"""Recurrent layers as ONNX operations: a Scan over time, whatever the number of steps, sequences and samples.

Tensors are (time, samples, batch, size); samples is 1 where nothing has been drawn yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from sttau.export.draws import Draws
from sttau.export.graph import Graph, Value
from sttau.export.moments import last_moments
from sttau.layers import (
    BayesLSTM,
    FiniteStateRNN,
    HeadDropoutLSTM,
    MinGRU,
    MinLSTM,
    RecurrentLayer,
    SamplingFreeGRU,
    TorchRNN,
    VariationalDropoutLSTM,
)
from sttau.layers.base import WEIGHTS

_EXPORTED = (TorchRNN, FiniteStateRNN, BayesLSTM, VariationalDropoutLSTM, MinGRU, MinLSTM, SamplingFreeGRU)


@dataclass(frozen=True)
class Batch:
    """What a layer reads.

    Attributes:
        graph: Graph the operations are appended to.
        inputs: (time, 1, batch, features).
        valid: (time, batch, 1), whether a step belongs to the sequence.
        steps: (time,) numbers of the steps.
        draws: Random draws; None for a mode that draws nothing.
    """

    graph: Graph
    inputs: Value
    valid: Value
    steps: Value
    draws: Draws | None

    @property
    def rows(self) -> tuple[int | Value, Value]:
        """Number of samples and of sequences."""
        samples = 1 if self.draws is None else self.graph.size(self.draws.sample, 0)
        return samples, self.graph.size(self.inputs, 2)


@dataclass(frozen=True)
class _Direction:
    """Weights of one layer and direction, transposed; those that are drawn begin with an axis of samples."""

    input: Value
    recurrent: Value | None  # None for a layer whose gates do not read the past
    input_bias: Value | None
    recurrent_bias: Value | None


def check_layer(layer: RecurrentLayer) -> None:
    """Raise where a layer cannot be exported."""
    if not isinstance(layer, _EXPORTED):
        raise ValueError(f"a model on {layer.kind} cannot be exported to ONNX: the layer has no ONNX form yet")


def last_features(layer: RecurrentLayer, batch: Batch, mode: str, *, transitions: bool = False) -> Value:
    """Return what the head reads after the last valid step, (samples, batch, size).

    Args:
        layer: Layer to run; not in exact mode.
        batch: Its input.
        mode: Mode of the layer.
        transitions: Whether to return α of a finite-state layer instead of its output.
    """
    if isinstance(layer, SamplingFreeGRU):
        return _last_drawn(layer, batch)
    g = batch.graph
    directions = _directions(layer, batch, mode)
    inputs, last = batch.inputs, batch.inputs
    for number in range(layer.num_layers):
        top = number == layer.num_layers - 1
        ends, outputs = [], []
        for direction in range(layer.num_directions):
            index = number * layer.num_directions + direction
            end, output = _run(
                layer, index, directions[index], batch, inputs, mode, transitions and top, direction == 1
            )
            ends.append(end)
            outputs.append(output)
        last, inputs = (_join(g, parts) for parts in (ends, outputs))
    if isinstance(layer, HeadDropoutLSTM) and mode == "sampled":
        assert batch.draws is not None
        return last * _mask(g, batch.draws, 0, 0, layer.output_size, layer.dropout)
    return last


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
        matrix = g.op("Softmax", _gru(g, given[0], r, h) @ s, axis=-1)  # (batch, k + 1, k)
        after = g.squeeze(g.unsqueeze(carried[0], 1) @ matrix, 1)
        after = g.op("Concat", g.slice(carried[0], 0, 1, 1) * 0.0, after / g.sum(after, -1, keep=True), axis=-1)
        return [g.where(given[1], after, carried[0])], []

    ends, _ = g.scan(step, [pi], [x, batch.valid])
    return g.slice(ends[0], 1, k + 1, 1)


def _run(
    layer: RecurrentLayer,
    index: int,
    weights: _Direction,
    batch: Batch,
    inputs: Value,
    mode: str,
    transitions: bool,
    reverse: bool,
) -> tuple[Value, Value]:
    """The output after the last step, (samples, batch, d), and after every step, with time in front."""
    if isinstance(layer, (MinGRU, MinLSTM)):
        return _run_minimal(layer, weights, batch, inputs, reverse)
    g, finite = batch.graph, layer if isinstance(layer, FiniteStateRNN) else None
    samples, sequences = batch.rows
    mask: Value | None = None
    drops = isinstance(layer, VariationalDropoutLSTM) and not isinstance(layer, HeadDropoutLSTM)
    if drops and mode == "sampled":
        factor, mask = _masks(cast(VariationalDropoutLSTM, layer), index, batch)
        inputs = inputs * factor
    x = _affine(inputs, weights.input, weights.input_bias)
    own = None if finite is None else finite._weights(index)
    begin = own.states[0] if finite is not None and own is not None and finite.initial == "first" else None
    d, lstm = layer.hidden_size, layer.is_lstm

    def start(size: int, value: Tensor | None = None) -> Value:
        first = torch.zeros(size) if value is None else value
        return g.expand(g.constant(first.reshape(1, 1, -1)), samples, sequences, 1)

    streams = [x, batch.valid]
    if finite is not None and mode != "deterministic":
        assert batch.draws is not None
        streams.append(batch.draws.gumbel(batch.steps, index, finite.num_states))

    def step(carried: list[Value], given: list[Value]) -> tuple[list[Value], list[Value]]:
        hidden = carried[0]
        assert weights.recurrent is not None
        projected = _affine(hidden if mask is None else hidden * mask, weights.recurrent, weights.recurrent_bias)
        memory: list[Value] = []
        if lstm:
            u, c = _lstm(g, given[0] + projected, carried[2], None if own is None else own.peephole)
            memory = [c]
        else:
            u = _gru(g, given[0], projected, hidden)
        after, read = u, u
        if own is not None:
            alpha = _transition(g, u @ g.constant(own.states.T), own.temperature, given[2:], mode)
            after = alpha @ g.constant(own.states)
            read = alpha if transitions else after if cast(FiniteStateRNN, finite).readout == "state" else u
        new = [g.where(given[1], now, before) for now, before in zip([after, read, *memory], carried, strict=True)]
        return new, [read]

    size = finite.num_states if finite is not None and transitions else d
    states = [start(d, begin), start(size), *([start(d)] if lstm else [])]
    ends, outputs = g.scan(step, states, streams, outputs=1, reverse=reverse)
    return ends[1], outputs[0]


def _run_minimal(
    layer: MinGRU | MinLSTM, weights: _Direction, batch: Batch, inputs: Value, reverse: bool
) -> tuple[Value, Value]:
    """The same for a minimal layer: h = a h + b, with a and b of the input alone."""
    g = batch.graph
    parts = g.split(_affine(inputs, weights.input, weights.input_bias), 2 if isinstance(layer, MinGRU) else 3)
    half = g.op("Relu", parts[-1]) + 0.5
    candidate = g.where(parts[-1] < 0.0, g.op("Sigmoid", parts[-1]), half)
    add = g.op("Sigmoid", parts[0])
    if isinstance(layer, MinLSTM):
        forget, enter = add, g.op("Sigmoid", parts[1])
        add = enter / (forget + enter)
    keep = g.op("Neg", add) + 1.0

    def step(carried: list[Value], given: list[Value]) -> tuple[list[Value], list[Value]]:
        after = given[0] * carried[0] + given[1]
        return [g.where(given[2], after, carried[0])], [after]

    start = g.expand(g.constant(torch.zeros(1, 1, layer.hidden_size)), 1, batch.rows[1], 1)
    ends, outputs = g.scan(step, [start], [keep, add * candidate, batch.valid], outputs=1, reverse=reverse)
    return ends[0], outputs[0]


def _last_drawn(layer: SamplingFreeGRU, batch: Batch) -> Value:
    """What the head reads of a sampling-free layer: draws from the Gaussian of its last output, or the mean."""
    g = batch.graph
    last = last_moments(g, layer, batch.inputs, batch.valid)
    if batch.draws is None:
        return last.mean
    drawn = g.squeeze(batch.draws.gaussian(g.constant([0], "int64"), 0, layer.output_size), 0)
    return last.mean + g.op("Sqrt", last.variance) * drawn


def _lstm(g: Graph, gates: Value, memory: Value, peephole: Tensor | None) -> tuple[Value, Value]:
    i, f, n, o = g.split(gates, 4)
    if peephole is not None:
        i, f = i + memory * g.constant(peephole[0]), f + memory * g.constant(peephole[1])
    memory = g.op("Sigmoid", f) * memory + g.op("Sigmoid", i) * g.op("Tanh", n)
    if peephole is not None:
        o = o + memory * g.constant(peephole[2])
    return g.op("Sigmoid", o) * g.op("Tanh", memory), memory


def _gru(g: Graph, x: Value, recurrent: Value, hidden: Value) -> Value:
    x_r, x_z, x_n = g.split(x, 3)
    h_r, h_z, h_n = g.split(recurrent, 3)
    z = g.op("Sigmoid", x_z + h_z)
    n = g.op("Tanh", x_n + g.op("Sigmoid", x_r + h_r) * h_n)
    return n + z * (hidden - n)


def _transition(g: Graph, logits: Value, temperature: Tensor, gumbel: list[Value], mode: str) -> Value:
    perturbed = logits + gumbel[0] if gumbel else logits
    if mode != "hard":
        return g.op("Softmax", perturbed / g.constant(temperature), axis=-1)
    best = g.op("ArgMax", perturbed, kind="int64", axis=-1, keepdims=1)
    places = g.range(g.size(perturbed, 2))
    return g.cast(g.op("Equal", best, places, kind="bool"), "float32")


def _masks(layer: VariationalDropoutLSTM, index: int, batch: Batch) -> tuple[Value, Value]:
    """The factors of inputs and recurrent units, (samples, batch, size); as ``layer.masks``."""
    g = batch.graph
    assert batch.draws is not None
    first = index < layer.num_directions
    rates = (layer.input_dropout if first and layer.input_dropout is not None else layer.dropout, layer.dropout)
    factors = []
    for place, (rate, size) in enumerate(zip(rates, (layer._input_features(index), layer.hidden_size), strict=True)):
        factors.append(_mask(g, batch.draws, place, index, size, rate))
    return factors[0], factors[1]


def _mask(g: Graph, draws: Draws, step: int, index: int, size: int, rate: float) -> Value:
    """0, or 1 / (1 - rate), (samples, batch, size)."""
    drawn = g.squeeze(draws.uniform(g.constant([step], "int64"), index, size), 0)
    return (g.op("Neg", g.cast(drawn < rate, "float32")) + 1.0) / (1 - rate)


def _directions(layer: RecurrentLayer, batch: Batch, mode: str) -> list[_Direction]:
    """The weights of every layer and direction, drawn where they are sampled."""
    g = batch.graph
    if isinstance(layer, BayesLSTM) and mode == "sampled":
        named = _drawn_weights(layer, batch)
    else:
        source = layer.rnn if isinstance(layer, TorchRNN) else layer
        parameters = dict(source.named_parameters())
        names = [f"{kind}_{suffix}" for suffix in layer._suffixes() for kind in WEIGHTS]
        named = {name: g.constant(parameters[name].detach().cpu().numpy().T) for name in names if name in parameters}
    return [
        _Direction(*(named.get(f"{kind}_{suffix}") for kind in WEIGHTS))  # type: ignore[arg-type]
        for suffix in layer._suffixes()
    ]


def _drawn_weights(layer: BayesLSTM, batch: Batch) -> dict[str, Value]:
    """w = μ + σ ε for every sample: matrices (samples, in, out), biases (samples, 1, out)."""
    g = batch.graph
    assert batch.draws is not None
    mean, scale = layer._moments()
    drawn = g.constant(mean) + g.constant(scale) * batch.draws.normal(len(mean))
    named, place = {}, 0
    for name in layer._names():
        shape = layer.get_parameter(name).shape
        part = g.reshape(g.slice(drawn, place, place + shape.numel(), 1), 0, *(shape if len(shape) == 2 else (1, -1)))
        named[name] = g.op("Transpose", part, perm=[0, 2, 1]) if len(shape) == 2 else part
        place += shape.numel()
    return named


def _affine(x: Value, weight: Value, bias: Value | None) -> Value:
    product = x @ weight
    return product if bias is None else product + bias


def _join(g: Graph, directions: list[Value]) -> Value:
    return directions[0] if len(directions) == 1 else g.op("Concat", *directions, axis=-1)
