"""``nn.LSTM`` and ``nn.GRU`` as ONNX operations."""

from __future__ import annotations

from torch import Tensor

from sttau.export.layers.base import RecurrentForm
from sttau.layers import TorchRNN


class TorchForm(RecurrentForm[TorchRNN]):
    """An adapted layer, whose weights are those of the layer of PyTorch."""

    def parameters(self) -> dict[str, Tensor]:  # noqa: D102
        return dict(self.layer.rnn.named_parameters())


FORMS = {TorchRNN: TorchForm}
