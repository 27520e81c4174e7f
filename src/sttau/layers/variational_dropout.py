"""Variational dropout: an LSTM with one mask a sequence, the same at all its steps (Gal & Ghahramani, 2016)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from sttau.engine import Noise, masked, stacked
from sttau.layers.stochastic import WEIGHTS, LayerMode, PlainStochasticLSTM, beside, check_rate, check_rows


class Masks(NamedTuple):
    """What one layer and direction multiplies with at every step: 0, or 1 / (1 - rate)."""

    input: Tensor  # (rows, features)
    recurrent: Tensor  # (rows, hidden_size)


class VariationalDropoutLSTM(PlainStochasticLSTM):
    """An LSTM that drops inputs and recurrent units, the same ones throughout a sequence.

    Arguments, shapes, results and the names of weights are those of ``nn.LSTM``. ``dropout`` means something else: its
    masks hold for a whole sequence and all layers, in training and in prediction. They differ between sequences,
    samples, layers and directions. Both rates may be changed at any time (``layer.dropout = 0.3``); with 0 the layer
    is ``nn.LSTM`` and runs on its code, as it does under ``mode="deterministic"``. Under one seed, units that are
    dropped at a rate are dropped at every higher rate too.

    Args:
        input_size: features a step.
        hidden_size: d.
        num_layers: stacked layers; what goes from one to the next is dropped as input is.
        bias: whether gates have biases.
        batch_first: whether the batch stands before time in input and output.
        dropout: the share of recurrent units and of inputs that a sequence goes without.
        bidirectional: also read from the end; the two halves are concatenated.
        input_dropout: another rate for the features that go into the first layer. With a single feature, dropping it
            leaves nothing: set it to 0 there.
        device: where the weights live.
        dtype: of the weights. With half precision the recurrence itself runs in float32.

    Example:
        >>> layer = VariationalDropoutLSTM(8, 32, batch_first=True, dropout=0.1)
        >>> output, (h_n, c_n) = layer(torch.randn(4, 10, 8))
        >>> output.shape, h_n.shape
        (torch.Size([4, 10, 32]), torch.Size([1, 4, 32]))
        >>> layer.masks(Noise.of(torch.arange(4)))[0].recurrent.shape
        torch.Size([4, 32])
    """

    modes: ClassVar[tuple[LayerMode, ...]] = ("sampled", "deterministic")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.1,
        bidirectional: bool = False,
        *,
        input_dropout: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        self.input_dropout = input_dropout
        width = 4 * hidden_size
        for index, suffix in enumerate(self._suffixes()):
            features = input_size if index < self.num_directions else hidden_size * self.num_directions
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (width, features), "weight_hh": (width, hidden_size)}
            if bias:
                shapes |= {"bias_ih": (width,), "bias_hh": (width,)}
            for name, shape in shapes.items():
                value = torch.empty(shape, device=device, dtype=dtype)
                self.register_parameter(f"{name}_{suffix}", nn.Parameter(value))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, uniformly in ±1/√d as ``nn.LSTM`` does."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    @property
    def dropout(self) -> float:
        """The rate of recurrent units, of what passes between layers and, without ``input_dropout``, of inputs."""
        return self._dropout

    @dropout.setter
    def dropout(self, rate: float) -> None:
        check_rate("dropout", rate)
        self._dropout = float(rate)

    @property
    def input_dropout(self) -> float | None:
        """The rate of features that go into the first layer; None for that of all else."""
        return self._input_dropout

    @input_dropout.setter
    def input_dropout(self, rate: float | None) -> None:
        if rate is not None:
            check_rate("input_dropout", rate)
        self._input_dropout = None if rate is None else float(rate)

    @property
    def mode(self) -> LayerMode:  # type: ignore[override]
        """``sampled``, or ``deterministic`` while nothing is dropped."""
        return "sampled" if self.dropout or self.input_dropout else "deterministic"

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
            "input_dropout": self.input_dropout,
        }

    def masks(self, noise: Noise) -> list[Masks]:
        """The masks of every layer and direction, in the order of ``h_n``, for the rows of a noise."""
        noise = replace(noise, first_step=0)  # a sequence that is read in pieces keeps its masks
        every = []
        for index in range(self.num_layers * self.num_directions):
            first = index < self.num_directions
            sizes = (self.input_size if first else self.hidden_size * self.num_directions, self.hidden_size)
            rates = (self.input_dropout if first and self.input_dropout is not None else self.dropout, self.dropout)
            drawn = [noise.for_layer(index).uniform(place, 1, size)[:, 0] for place, size in enumerate(sizes)]
            every.append(Masks(*((u >= rate).to(u) / (1 - rate) for u, rate in zip(drawn, rates, strict=True))))
        return every

    # -- running it --------------------------------------------------------------------------------------------------

    def parts(self, x: Tensor, noise: Noise) -> list[stacked.Part]:
        """One network: every row has masks of its own."""
        (masks,) = self.masks(noise)
        weights = stacked.Weights(*(self.get_parameter(f"{name}_l0") for name in WEIGHTS))
        x = x.repeat(check_rows(noise, len(x)), 1, 1) * masks.input[:, None]
        return [stacked.Part(x, weights, masks.recurrent)]

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
        """Output, h_n and c_n of all rows; ``final`` says whether the last two will be read."""
        batch, lengths = x.shape[0], self._checked(x, self._accepted(x), x.shape, lengths)
        if self._chosen(mode) == "deterministic":
            return self._fused(x, hidden, memory, lengths, dict(self.named_parameters()), final)
        noise = Noise.fresh(batch, x.device) if noise is None else noise
        rows, runs, given = len(noise.sequence), check_rows(noise, batch), x.dtype
        fine = torch.promote_types(self.dtype, torch.float32)
        zeros = x.new_zeros(rows, self.hidden_size, dtype=fine)
        x = x.to(fine).transpose(0, 1).repeat(1, runs, 1)  # masks differ between samples, so inputs do
        lengths = None if lengths is None else lengths.to(x.device).repeat(runs)
        last = -1 if lengths is None else (lengths - 1, torch.arange(rows, device=x.device))
        ends: list[tuple[Tensor, Tensor]] = []
        outputs: list[Tensor] = []
        for index, masks in enumerate(self.masks(noise)):
            if index and index % self.num_directions == 0:
                x, outputs = beside(outputs), []
            back = index % self.num_directions == 1
            output, c = masked.run(
                (_turned(x, lengths) if back else x) * masks.input.to(fine),
                self._weights(index, fine),
                masks.recurrent.to(fine),
                zeros if hidden is None else hidden[index].to(fine).repeat(runs, 1),
                zeros if memory is None else memory[index].to(fine).repeat(runs, 1),
                lengths,
            )
            ends.append((output[last], c))
            outputs.append(_turned(output, lengths) if back else output)
        h_n, c_n = (torch.stack(parts).to(given) for parts in zip(*ends, strict=True))
        return beside(outputs).transpose(0, 1).to(given), h_n, c_n

    def _weights(self, index: int, dtype: torch.dtype) -> masked.MaskedWeights:
        suffix = self._suffixes()[index]

        def get(name: str) -> Tensor:
            return self.get_parameter(f"{name}_{suffix}").to(dtype)

        bias = get("bias_ih") + get("bias_hh") if self.bias else None
        return masked.MaskedWeights(get("weight_ih"), get("weight_hh"), bias)

    def _between_layers(self) -> float:
        return 0.0  # deterministic: nothing is dropped


def _turned(x: Tensor, lengths: Tensor | None) -> Tensor:
    """(time, rows, ·) read from each row's end; the same turn leads back."""
    if lengths is None:
        return x.flip(0)
    step = torch.arange(len(x), device=x.device)[:, None]
    source = torch.where(step < lengths, lengths - 1 - step, step)
    return x[source, torch.arange(x.shape[1], device=x.device)]
