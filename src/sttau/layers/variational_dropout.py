"""Variational dropout: an LSTM with one mask per sequence, the same at all its steps (Gal & Ghahramani, 2016)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sttau.checks import check_rate
from sttau.engine import Noise, masked, stacked
from sttau.layers.base import WEIGHTS, concatenate, register_layer, samples_per_sequence
from sttau.layers.call import Call, LayerMode, Output
from sttau.layers.sampled_lstm import SampledLSTM
from sttau.padding import last_valid_step, reverse_steps


class Masks(NamedTuple):
    """Factors of one layer and direction, the same at every step: 0, or 1 / (1 - rate)."""

    input: Tensor  # (rows, features)
    recurrent: Tensor  # (rows, hidden_size)


@register_layer
class VariationalDropoutLSTM(SampledLSTM):
    """An LSTM that drops inputs and recurrent units, the same ones throughout a sequence.

    Arguments, shapes, results and the names of weights are those of ``nn.LSTM``, but ``dropout`` means something else:
    its masks hold for a whole sequence and all layers, in training and in prediction. They differ between sequences,
    samples, layers and directions. Both rates may be changed at any time (``layer.dropout = 0.3``); with 0 the layer
    equals ``nn.LSTM`` and runs on its kernels, as it does with ``mode="deterministic"``. With one seed, units that are
    dropped at a rate are dropped at every higher rate too.

    Args:
        input_size: Features per step.
        hidden_size: d, the size of the hidden state.
        num_layers: Number of stacked layers; inputs of upper layers are dropped too.
        bias: Whether gates have biases.
        batch_first: Whether the batch comes before time in input and output.
        dropout: Rate at which recurrent units and inputs are dropped.
        bidirectional: Whether to read from the end too; the two outputs are concatenated.
        input_dropout: Another rate for the input features of the first layer. Set it to 0 for a single feature:
            dropping that would leave no input.
        device: Device of the weights.
        dtype: Dtype of the weights. With half precision the recurrence itself runs in float32.

    Example:
        >>> layer = VariationalDropoutLSTM(8, 32, batch_first=True, dropout=0.1)
        >>> output, (h_n, c_n) = layer(torch.randn(4, 10, 8))
        >>> output.shape, h_n.shape
        (torch.Size([4, 10, 32]), torch.Size([1, 4, 32]))
        >>> layer.masks(Noise.of(torch.arange(4)))[0].recurrent.shape
        torch.Size([4, 32])
    """

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
        for index, suffix in enumerate(self._suffixes()):
            for name, shape in self._parameter_shapes(index).items():
                value = torch.empty(shape, device=device, dtype=dtype)
                self.register_parameter(f"{name}_{suffix}", nn.Parameter(value))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize all weights uniformly in ±1/√d, as ``nn.LSTM`` does."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    @property
    def dropout(self) -> float:
        """Rate of recurrent units, of inputs of upper layers and, without ``input_dropout``, of input features."""
        return self._dropout

    @dropout.setter
    def dropout(self, rate: float) -> None:
        check_rate("dropout", rate)
        self._dropout = float(rate)

    @property
    def input_dropout(self) -> float | None:
        """Rate of the input features of the first layer; None for ``dropout``."""
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
        """Return the arguments that construct a layer like this one, as plain values."""
        return super().config() | {"input_dropout": self.input_dropout}

    def masks(self, noise: Noise) -> list[Masks]:
        """Return the masks of every layer and direction, in the order of ``h_n``, for the rows of a noise."""
        noise = replace(noise, first_step=0)  # a sequence that is read in chunks keeps its masks
        every = []
        for index in range(self.num_layers * self.num_directions):
            first = index < self.num_directions
            sizes = (self.input_size if first else self.hidden_size * self.num_directions, self.hidden_size)
            rates = (self.input_dropout if first and self.input_dropout is not None else self.dropout, self.dropout)
            drawn = [noise.for_layer(index).uniform(place, 1, size)[:, 0] for place, size in enumerate(sizes)]
            every.append(Masks(*((u >= rate).to(u) / (1 - rate) for u, rate in zip(drawn, rates, strict=True))))
        return every

    # -- running --------------------------------------------------------------------------------------------------

    def cell_masks(self, noise: Noise) -> tuple[Tensor, Tensor]:
        """Return the masks of the first layer."""
        return self.masks(noise)[0] if self.mode == "sampled" else super().cell_masks(noise)

    def stacked_parts(self, x: Tensor, noise: Noise | None) -> list[stacked.Part]:
        """Return one network: every row has its own masks."""
        noise = Noise.fresh(len(x), x.device) if noise is None else noise
        (masks,) = self.masks(noise)
        weights = stacked.Weights(*(self.weight(f"{name}_l0") for name in WEIGHTS))
        x = x.repeat(samples_per_sequence(noise, len(x)), 1, 1) * masks.input[:, None]
        return [stacked.Part(x, weights, masks.recurrent)]

    def _run_samples(self, x: Tensor, call: Call) -> Output:
        batch, lengths = x.shape[0], call.lengths
        if call.mode == "deterministic":
            return self._fused(x, call, lengths, dict(self.named_parameters()))
        noise = Noise.fresh(batch, x.device) if call.noise is None else call.noise
        hidden, memory = call.hidden, call.memory
        rows, samples, given = len(noise.sequence), samples_per_sequence(noise, batch), x.dtype
        fine = torch.promote_types(self.dtype, torch.float32)
        zeros = x.new_zeros(rows, self.hidden_size, dtype=fine)
        x = x.to(fine).transpose(0, 1).repeat(1, samples, 1)  # masks differ between samples, and so do inputs
        lengths = None if lengths is None else lengths.to(x.device).repeat(samples)
        ends: list[tuple[Tensor, Tensor]] = []
        outputs: list[Tensor] = []
        for index, masks in enumerate(self.masks(noise)):
            if index and index % self.num_directions == 0:
                x, outputs = concatenate(outputs), []
            back = index % self.num_directions == 1
            output, c = masked.run(
                (reverse_steps(x, lengths) if back else x) * masks.input.to(fine),
                self._weights(index, fine),
                masks.recurrent.to(fine),
                zeros if hidden is None else hidden[index].to(fine).repeat(samples, 1),
                zeros if memory is None else memory[index].to(fine).repeat(samples, 1),
                lengths,
            )
            if call.final:
                ends.append((last_valid_step(output.transpose(0, 1), lengths), c))
            outputs.append(reverse_steps(output, lengths) if back else output)
        whole = concatenate(outputs).transpose(0, 1).to(given)
        return Output(whole, *(torch.stack(parts).to(given) for parts in zip(*ends, strict=True)))

    def _weights(self, index: int, dtype: torch.dtype) -> masked.MaskedWeights:
        suffix = self._suffixes()[index]

        def get(name: str) -> Tensor:
            return self.weight(f"{name}_{suffix}").to(dtype)

        bias = get("bias_ih") + get("bias_hh") if self.bias else None
        return masked.MaskedWeights(get("weight_ih"), get("weight_hh"), bias)

    def _layer_dropout(self) -> float:
        return 0.0  # in deterministic mode nothing is dropped
