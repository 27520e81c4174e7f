"""What the ONNX forms of all layers share: the order of layers and directions, and the gates.

Tensors are (time, samples, batch, size); samples is 1 where nothing has been drawn yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from sttau.export.draws import Draws
from sttau.export.graph import Graph, Value
from sttau.layers import RecurrentLayer
from sttau.layers.base import WEIGHTS

L = TypeVar("L", bound=RecurrentLayer)
S = TypeVar("S")


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

    @property
    def random(self) -> Draws:
        """The draws, in a mode that draws."""
        assert self.draws is not None
        return self.draws


@dataclass(frozen=True)
class Direction:
    """Weights of one layer and direction, transposed; those that are drawn begin with an axis of samples."""

    input: Value
    recurrent: Value | None  # None for a layer whose gates do not read the past
    input_bias: Value | None
    recurrent_bias: Value | None


class LayerForm(ABC, Generic[L, S]):
    """A layer as ONNX operations; S is what passes from one of its layers to the next.

    Args:
        layer: Layer to run; not in exact mode.
        batch: Its input.
        mode: Mode of the layer.
        transitions: Whether α of a finite-state layer is read instead of its output.
    """

    def __init__(self, layer: L, batch: Batch, mode: str, transitions: bool = False) -> None:
        self.layer, self.batch, self.mode, self.transitions = layer, batch, mode, transitions
        self.graph = batch.graph

    @abstractmethod
    def last(self) -> Value:
        """What the head reads after the last valid step, (samples, batch, size)."""

    @abstractmethod
    def run(self, index: int, inputs: S, reverse: bool) -> tuple[S, S]:
        """Run one layer in one direction; return its output after the last step, and after every step."""

    @abstractmethod
    def join(self, directions: list[S]) -> S:
        """The outputs of several directions as one."""

    def through(self, inputs: S) -> S:
        """Run all layers and directions; return the output after the last step."""
        count = self.layer.num_directions
        last = inputs
        for number in range(self.layer.num_layers):
            every = [self.run(number * count + place, inputs, place == 1) for place in range(count)]
            last, inputs = (self.join(list(parts)) for parts in zip(*every, strict=True))
        return last


class GatedForm(LayerForm[L, Value]):
    """Layers whose values are not moments but numbers, which have the weights of ``nn.LSTM`` or ``nn.GRU``."""

    def last(self) -> Value:  # noqa: D102
        self.directions = self.weights()
        return self.through(self.batch.inputs)

    def join(self, directions: list[Value]) -> Value:  # noqa: D102
        return directions[0] if len(directions) == 1 else self.graph.op("Concat", *directions, axis=-1)

    def parameters(self) -> dict[str, Tensor]:
        """The parameters by the names of ``nn.LSTM``."""
        return dict(self.layer.named_parameters())

    def weights(self) -> list[Direction]:
        """The weights of every layer and direction, drawn where they are sampled."""
        named = {
            name: self.graph.constant(value.detach().cpu().numpy().T) for name, value in self.parameters().items()
            if name.startswith(WEIGHTS)
        }  # fmt: skip
        return self.sort(named)

    def sort(self, named: dict[str, Value]) -> list[Direction]:
        """Put weights by name into their layers and directions."""
        return [
            Direction(*(named.get(f"{kind}_{suffix}") for kind in WEIGHTS))  # type: ignore[arg-type]
            for suffix in self.layer._suffixes()
        ]

    def zeros(self, size: int, value: Tensor | None = None) -> Value:
        """The value before the first step, (samples, batch, size), zero by default."""
        first = torch.zeros(size) if value is None else value
        samples, sequences = self.batch.rows
        return self.graph.expand(self.graph.constant(first.reshape(1, 1, -1)), samples, sequences, 1)


class RecurrentForm(GatedForm[L]):
    """An LSTM or a GRU; what else a layer does at each step are the methods that others override."""

    def run(self, index: int, inputs: Value, reverse: bool) -> tuple[Value, Value]:  # noqa: D102
        g, layer, weights = self.graph, self.layer, self.directions[index]
        inputs, mask = self.drop(index, inputs)
        peephole = self.peephole(index)

        def step(carried: list[Value], given: list[Value]) -> tuple[list[Value], list[Value]]:
            hidden = carried[0]
            assert weights.recurrent is not None
            projected = affine(hidden if mask is None else hidden * mask, weights.recurrent, weights.recurrent_bias)
            memory: list[Value] = []
            if layer.is_lstm:
                u, c = _lstm(g, given[0] + projected, carried[2], peephole)
                memory = [c]
            else:
                u = gru(g, given[0], projected, hidden)
            after, read = self.transition(index, u, given[2:])
            new = [g.where(given[1], now, before) for now, before in zip([after, read, *memory], carried, strict=True)]
            return new, [read]

        size = layer.hidden_size
        memory = [self.zeros(size)] if layer.is_lstm else []
        states = [self.zeros(size, self.initial(index)), self.zeros(self.read_size(index)), *memory]
        streams = [affine(inputs, weights.input, weights.input_bias), self.batch.valid, *self.noise(index)]
        ends, outputs = g.scan(step, states, streams, outputs=1, reverse=reverse)
        return ends[1], outputs[0]

    def drop(self, index: int, inputs: Value) -> tuple[Value, Value | None]:
        """The inputs with dropout, and the mask of recurrent units, if any."""
        return inputs, None

    def initial(self, index: int) -> Tensor | None:
        """The hidden state before the first step, where it is not zero."""
        return None

    def peephole(self, index: int) -> Tensor | None:
        """The peepholes of the gates, if any."""
        return None

    def noise(self, index: int) -> list[Value]:
        """What is drawn for every step, with time in front."""
        return []

    def transition(self, index: int, u: Value, noise: list[Value]) -> tuple[Value, Value]:
        """The new hidden state and what is read after a step, from the output of the cell."""
        return u, u

    def read_size(self, index: int) -> int:
        """The size of what is read."""
        return self.layer.hidden_size


def affine(x: Value, weight: Value, bias: Value | None) -> Value:
    """W x + b, of a transposed matrix."""
    product = x @ weight
    return product if bias is None else product + bias


def gru(g: Graph, x: Value, recurrent: Value, hidden: Value) -> Value:
    """The output of a GRU cell, from the contributions of its input and of its hidden state to the gates."""
    x_r, x_z, x_n = g.split(x, 3)
    h_r, h_z, h_n = g.split(recurrent, 3)
    z = g.op("Sigmoid", x_z + h_z)
    n = g.op("Tanh", x_n + g.op("Sigmoid", x_r + h_r) * h_n)
    return n + z * (hidden - n)


def _lstm(g: Graph, gates: Value, memory: Value, peephole: Tensor | None) -> tuple[Value, Value]:
    i, f, n, o = g.split(gates, 4)
    if peephole is not None:
        i, f = i + memory * g.constant(peephole[0]), f + memory * g.constant(peephole[1])
    memory = g.op("Sigmoid", f) * memory + g.op("Sigmoid", i) * g.op("Tanh", n)
    if peephole is not None:
        o = o + memory * g.constant(peephole[2])
    return g.op("Sigmoid", o) * g.op("Tanh", memory), memory
