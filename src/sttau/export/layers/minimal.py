"""Minimal layers as ONNX operations: h = a h + b, with a and b of the input alone."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from sttau.export.graph import Value
from sttau.export.layers.base import GatedForm, affine
from sttau.layers import MinGRU, MinLSTM

M = TypeVar("M", bound=MinGRU | MinLSTM)


class _MinimalForm(GatedForm[M]):
    """What both have in common."""

    @abstractmethod
    def weight(self, gates: list[Value]) -> Value:
        """The weight of the candidate, from the gates before it."""

    def run(self, index: int, inputs: Value, reverse: bool) -> tuple[Value, Value]:
        g, weights = self.graph, self.directions[index]
        *gates, candidate = g.split(affine(inputs, weights.input, weights.input_bias), self.layer._gates)
        candidate = g.where(candidate < 0.0, g.op("Sigmoid", candidate), g.op("Relu", candidate) + 0.5)
        add = self.weight([g.op("Sigmoid", gate) for gate in gates])
        keep = g.op("Neg", add) + 1.0

        def step(carried: list[Value], given: list[Value]) -> tuple[list[Value], list[Value]]:
            after = given[0] * carried[0] + given[1]
            return [g.where(given[2], after, carried[0])], [after]

        start = self.zeros(self.layer.hidden_size)
        ends, outputs = g.scan(step, [start], [keep, add * candidate, self.batch.valid], outputs=1, reverse=reverse)
        return ends[0], outputs[0]


class MinGRUForm(_MinimalForm[MinGRU]):
    """A minimal GRU."""

    def weight(self, gates: list[Value]) -> Value:  # noqa: D102
        return gates[0]


class MinLSTMForm(_MinimalForm[MinLSTM]):
    """A minimal LSTM."""

    def weight(self, gates: list[Value]) -> Value:  # noqa: D102
        forget, enter = gates
        return enter / (forget + enter)


FORMS = {MinGRU: MinGRUForm, MinLSTM: MinLSTMForm}
