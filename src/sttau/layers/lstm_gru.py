"""Layers that are called as ``nn.LSTM`` and ``nn.GRU`` are."""

from __future__ import annotations

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from sttau.engine import Noise
from sttau.layers.base import RecurrentLayer
from sttau.layers.call import LayerMode


class LSTMLayer(RecurrentLayer):
    """A layer that is called as ``nn.LSTM`` is."""

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: tuple[Tensor, Tensor] | None = None,
        *,
        lengths: Tensor | None = None,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
    ) -> tuple[Tensor | PackedSequence, tuple[Tensor, Tensor]]:
        """Run the layer as ``nn.LSTM`` does.

        Args:
            input: (time, batch, features), (batch, time, features) with ``batch_first``, (time, features), or a
                PackedSequence.
            hx: (h_0, c_0), each (layers · directions, batch, d).
            lengths: (batch,) valid steps of padded input; a PackedSequence has its own.
            noise: Noise of the draws; fresh noise from PyTorch's generator by default.
            mode: Mode of this call; the layer's own by default.
        """
        if hx is not None and not (isinstance(hx, tuple) and len(hx) == 2):
            raise TypeError(f"hx must be the pair (h_0, c_0), got {type(hx).__name__}")
        hidden, memory = (None, None) if hx is None else hx
        output, h_n, c_n = self._call(input, hidden, memory, lengths, noise, mode)
        assert c_n is not None
        return output, (h_n, c_n)


class GRULayer(RecurrentLayer):
    """A layer that is called as ``nn.GRU`` is."""

    is_lstm = False

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """Run the layer as ``nn.GRU`` does; arguments as in :meth:`LSTMLayer.forward`, ``hx`` is h_0."""
        output, h_n, _ = self._call(input, hx, None, lengths, noise, mode)
        return output, h_n
