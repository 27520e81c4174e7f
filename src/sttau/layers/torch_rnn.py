"""An adapter that gives ``nn.LSTM`` and ``nn.GRU`` the interface of the other layers."""

from __future__ import annotations

from typing import Any, cast

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sttau.engine import Noise, Weights, stacked
from sttau.layers.base import LAYERS, RecurrentLayer, as_cell_weights
from sttau.layers.call import Call, Output
from sttau.padding import clear_padding, last_valid_step

LAYERS |= {"LSTM": nn.LSTM, "GRU": nn.GRU}


class TorchRNN(RecurrentLayer):
    """``nn.LSTM`` or ``nn.GRU`` as a layer of this library. It draws nothing.

    Args:
        rnn: Layer to adapt; its weights are used as they are, not copied.

    Example:
        >>> import torch
        >>> layer = TorchRNN(nn.LSTM(8, 32))
        >>> layer.features(torch.randn(4, 10, 8), torch.tensor([10, 7, 3, 1]), steps="last").shape
        torch.Size([4, 1, 32])
    """

    def __init__(self, rnn: nn.LSTM | nn.GRU) -> None:
        if rnn.proj_size:
            raise ValueError("layers with proj_size are not supported; choose hidden_size instead")
        super().__init__(
            rnn.input_size, rnn.hidden_size, rnn.num_layers, rnn.bias, rnn.batch_first, rnn.dropout, rnn.bidirectional
        )
        self.is_lstm = isinstance(rnn, nn.LSTM)
        self.rnn = rnn

    @property
    def _first_weight(self) -> Tensor:
        return cast(Tensor, self.rnn.weight_ih_l0)

    @property
    def kind(self) -> str:
        """``LSTM`` or ``GRU``."""
        return "LSTM" if self.is_lstm else "GRU"

    @property
    def can_be_saved(self) -> bool:
        """Whether the adapted layer is ``nn.LSTM`` or ``nn.GRU`` itself, not a class derived from it."""
        return LAYERS.get(self.kind) is type(self.rnn)

    def extra_repr(self) -> str:
        """Nothing: the adapted layer shows its own arguments."""
        return ""

    def flatten_parameters(self) -> None:
        """Lay out the weights of the adapted layer in one piece of memory, where cuDNN reads them."""
        self.rnn.flatten_parameters()

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """Those of the adapted layer."""
        return self.rnn.all_weights

    def kl_divergence(self) -> Tensor | None:
        """Return that of a subclass which has a distribution over its weights; None for the plain layers."""
        divergence = getattr(self.rnn, "kl_divergence", None)
        return None if divergence is None else divergence()

    @property
    def is_stackable(self) -> bool:
        """Whether several such layers can be run as one: an LSTM of one layer and direction, with biases."""
        return self.is_lstm and self.can_be_saved and self.num_layers == 1 and not self.bidirectional and self.bias

    def stacked_parts(self, x: Tensor, noise: Noise | None) -> list[stacked.Part]:
        """Return one network."""
        return [stacked.Part(x, stacked.Weights(*self.rnn.parameters()))]

    def cell_weights(self, noise: Noise) -> Weights:
        """Return the weights of the adapted layer."""
        return as_cell_weights(dict(self.rnn.named_parameters()), self.hidden_size)

    def _run(self, inputs: Tensor, call: Call) -> Output:
        x, lengths = inputs if call.embedding is None else F.embedding(inputs, call.embedding), call.lengths
        if lengths is not None and self.bidirectional:
            packed = pack_padded_sequence(
                self._swap(x), lengths.cpu(), batch_first=self.batch_first, enforce_sorted=False
            )
            padded = pad_packed_sequence(self.rnn(packed)[0], self.batch_first, total_length=x.shape[1])[0]
            output = self._swap(padded)
        else:  # one direction: steps beyond a sequence's end change nothing before it, but NaN would reach gradients
            raw, end = self.rnn(self._swap(clear_padding(x, lengths)), self._start(call))
            output = self._swap(raw)
            if call.final and lengths is None:
                return Output(output, *(end if self.is_lstm else (end, None)))
        if call.steps == "last":
            return Output(last_valid_step(output, lengths, self.num_directions)[:, None])
        return Output(clear_padding(output, lengths))

    def _start(self, call: Call) -> Any:
        """The initial state as the adapted layer takes it."""
        return (call.hidden, call.memory) if self.is_lstm and call.hidden is not None else call.hidden

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> Any:
        """Run the adapted layer, with its own arguments and results."""
        return self.rnn(input, hx)

    def _swap(self, x: Tensor) -> Tensor:
        """Convert between (batch, time, ·) and the layer's own layout; the same swap leads there and back."""
        return x if self.batch_first else x.transpose(0, 1)


def as_layer(layer: nn.Module) -> RecurrentLayer:
    """Return a layer of this library: ``nn.LSTM`` and ``nn.GRU`` are adapted, others are returned as they are."""
    if isinstance(layer, (nn.LSTM, nn.GRU)):
        return TorchRNN(layer)
    if not isinstance(layer, RecurrentLayer):
        raise TypeError(
            f"layer must be nn.LSTM, nn.GRU or a layer of sttau.layers, such as STTauLSTM; got {type(layer).__name__}"
        )
    return layer
