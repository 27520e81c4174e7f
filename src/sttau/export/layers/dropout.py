"""Variational dropout, and dropout of the head, as ONNX operations."""

from __future__ import annotations

from sttau.export.draws import Draws
from sttau.export.graph import Graph, Value
from sttau.export.layers.base import RecurrentForm
from sttau.layers import HeadDropoutLSTM, VariationalDropoutLSTM


class DropoutForm(RecurrentForm[VariationalDropoutLSTM]):
    """An LSTM with one mask of inputs and of recurrent units for a whole sequence."""

    def drop(self, index: int, inputs: Value) -> tuple[Value, Value | None]:
        """Inputs and recurrent units are multiplied by the factors of ``layer.masks``, (samples, batch, size)."""
        if self.mode != "sampled":
            return inputs, None
        layer = self.layer
        own = layer.input_dropout if index < layer.num_directions else None
        rate = layer.dropout if own is None else own
        factor = _mask(self.graph, self.batch.random, 0, index, layer._input_features(index), rate)
        return inputs * factor, _mask(self.graph, self.batch.random, 1, index, layer.hidden_size, layer.dropout)


class HeadDropoutForm(RecurrentForm[HeadDropoutLSTM]):
    """An LSTM whose last output alone has dropout."""

    def last(self) -> Value:  # noqa: D102
        last = super().last()
        if self.mode != "sampled":
            return last
        return last * _mask(self.graph, self.batch.random, 0, 0, self.layer.output_size, self.layer.dropout)


def _mask(g: Graph, draws: Draws, step: int, index: int, size: int, rate: float) -> Value:
    """0, or 1 / (1 - rate), (samples, batch, size)."""
    drawn = g.squeeze(draws.uniform(g.constant([step], "int64"), index, size), 0)
    return (g.op("Neg", g.cast(drawn < rate, "float32")) + 1.0) / (1 - rate)


FORMS = {VariationalDropoutLSTM: DropoutForm, HeadDropoutLSTM: HeadDropoutForm}
