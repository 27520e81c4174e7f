"""Minimal recurrent layers: gates do not read the past, so all steps are computed at once (Feng et al., 2024)."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau.engine import backend
from sttau.layers.base import concatenate, register_layer
from sttau.layers.call import Call, Output
from sttau.layers.lstm_gru import GRULayer
from sttau.padding import clear_padding, last_valid_step, reverse_steps

_LOG_ZERO = -1000.0  # e^-1000 is 0, also in float64


class _Minimal(GRULayer):
    """h_t = a_t h_{t-1} + b_t with positive a_t and b_t that depend on x_t alone, computed as a sum in log space."""

    _gates: ClassVar[int]

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
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        width = self._gates * hidden_size
        for index, suffix in enumerate(self._suffixes()):
            weight = torch.empty(width, self._input_features(index), device=device, dtype=dtype)
            self.register_parameter(f"weight_ih_{suffix}", nn.Parameter(weight))
            if bias:
                self.register_parameter(
                    f"bias_ih_{suffix}", nn.Parameter(torch.empty(width, device=device, dtype=dtype))
                )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize all weights uniformly in ±1/√d, as ``nn.GRU`` does."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    @abstractmethod
    def _coefficients(self, gates: Tensor) -> tuple[Tensor, Tensor]:
        """log a_t and log b_t."""

    def _run(self, inputs: Tensor, call: Call) -> Output:
        x = inputs if call.embedding is None else F.embedding(inputs, call.embedding)
        dtype = x.dtype if backend.is_mixed(x.device) else self.dtype
        lengths = self._check_batch(x, dtype, x.shape, call.lengths)
        lengths = None if lengths is None else lengths.to(x.device)
        x = clear_padding(x, lengths).transpose(0, 1)
        ends: list[Tensor] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self.num_directions):
                index = layer * self.num_directions + direction
                start = None if call.hidden is None else call.hidden[index]
                read = self._scan(reverse_steps(x, lengths) if direction else x, self._suffixes()[index], start)
                ends.append(last_valid_step(read.transpose(0, 1), lengths))
                outputs.append(reverse_steps(read, lengths) if direction else read)
            x = concatenate(outputs)
            if layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        output = clear_padding(x.transpose(0, 1), lengths)
        if call.steps == "last":
            output = last_valid_step(output, lengths, self.num_directions)[:, None]
        return Output(output, torch.stack(ends))

    def _scan(self, x: Tensor, suffix: str, start: Tensor | None) -> Tensor:
        """h of all steps of (time, batch, features): h_t = e^{A_t} (h_0 + Σ e^{log b_s - A_s}), A the sum of log a.

        A_t grows with t, and at once where an input is large, so that differences of such sums would have few correct
        digits in float32: they are float64 where the device has it, and log a is bounded where a is 0 in any dtype.
        """
        bias = getattr(self, f"bias_ih_{suffix}", None)
        gates = F.linear(x, self.weight(f"weight_ih_{suffix}"), bias)
        keep, add = self._coefficients(gates.to(torch.promote_types(gates.dtype, torch.float32)))
        exact = torch.float32 if x.device.type == "mps" else torch.float64
        keep, add = keep.to(exact).clamp_min(_LOG_ZERO), add.to(exact)
        if start is not None:  # as a step before the first
            tiny = torch.finfo(add.dtype).tiny
            add = torch.cat([start.to(add).clamp_min(tiny).log()[None], add])
            keep = F.pad(keep, (0, 0, 0, 0, 1, 0))
        total = keep.cumsum(0)
        h = (total + (add - total).logcumsumexp(0)).exp()
        return (h if start is None else h[1:]).to(gates.dtype)


def _log_candidate(x: Tensor) -> Tensor:
    """log of x + 1/2 for positive x, and of sigmoid(x) for negative x: positive and continuous."""
    return torch.where(x >= 0, (x.clamp_min(0) + 0.5).log(), F.logsigmoid(x))


@register_layer
class MinGRU(_Minimal):
    """A minimal GRU: h_t = (1 - z_t) h_{t-1} + z_t h̃_t, where z_t and h̃_t depend on x_t alone (Feng et al., 2024).

    Arguments, shapes and results are those of ``nn.GRU``. All steps are computed at once, by a cumulative sum in log
    space, so long sequences are fast; a single layer is a weighted average of what each step says, so stack two or more
    (``num_layers=2``) where the order matters. States are positive, and so must h_0 be.

    Args:
        input_size: Features per step.
        hidden_size: d, the size of the hidden state.
        num_layers: Number of stacked layers.
        bias: Whether gates have biases.
        batch_first: Whether the batch comes before time in input and output.
        dropout: Dropout rate between layers, in training.
        bidirectional: Whether to read from the end too; the two outputs are concatenated.
        device: Device of the weights.
        dtype: Dtype of the weights.

    Example:
        >>> layer = MinGRU(8, 32, num_layers=2, batch_first=True)
        >>> output, h_n = layer(torch.randn(4, 10, 8))
        >>> output.shape, h_n.shape, bool((output > 0).all())
        (torch.Size([4, 10, 32]), torch.Size([2, 4, 32]), True)
    """

    _gates: ClassVar[int] = 2

    def _coefficients(self, gates: Tensor) -> tuple[Tensor, Tensor]:
        z, candidate = gates.chunk(2, dim=-1)
        return F.logsigmoid(-z), F.logsigmoid(z) + _log_candidate(candidate)


@register_layer
class MinLSTM(_Minimal):
    """A minimal LSTM: h_t = f'_t h_{t-1} + i'_t h̃_t with f' = f / (f + i) and i' = i / (f + i) (Feng et al., 2024).

    Arguments as :class:`MinGRU`; it has no memory cell, so it is called as ``nn.GRU`` is.

    Example:
        >>> layer = MinLSTM(8, 32)
        >>> output, h_n = layer(torch.randn(10, 4, 8))
        >>> output.shape
        torch.Size([10, 4, 32])
    """

    _gates: ClassVar[int] = 3

    def _coefficients(self, gates: Tensor) -> tuple[Tensor, Tensor]:
        f, i, candidate = gates.chunk(3, dim=-1)
        apart = F.softplus(-f) - F.softplus(-i)  # log i - log f
        return -F.softplus(apart), -F.softplus(-apart) + _log_candidate(candidate)
