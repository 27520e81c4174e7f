"""Chrono initialization: how long a new LSTM keeps its memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sttau.layers.torch_rnn import as_layer


@torch.no_grad()
def set_memory(layer: nn.Module, steps: float) -> None:
    """Initialize the gate biases of an LSTM for memories of all lengths up to ``steps`` (Tallec & Ollivier, 2018).

    A cell with forget bias b keeps its content for about e^b steps. With PyTorch's initialization all cells forget
    within a few steps, which long sequences must unlearn first. Here b = log(u) with u uniform between 1 and
    ``steps`` - 1, and the input bias is -b; all other biases are 0.

    Args:
        layer: LSTM of any kind; its biases are overwritten.
        steps: Longest memory, about the length of the sequences.

    Example:
        >>> layer = nn.LSTM(3, 100)
        >>> set_memory(layer, 50)
        >>> held = layer.bias_ih_l0[100:200].exp()
        >>> 1 <= held.min() < 5, 45 < held.max() <= 49
        (tensor(True), tensor(True))
    """
    rnn = as_layer(layer)
    if not rnn.is_lstm:
        raise TypeError(f"layer must be an LSTM, whose gates control a memory, got {rnn.kind}")
    if not rnn.bias:
        raise ValueError("layer has no biases; construct it with bias=True")
    if not steps > 2:
        raise ValueError(f"steps must be more than 2, got {steps}")
    size = rnn.hidden_size
    biases: dict[str, Tensor] = {
        name: value for name, value in layer.named_parameters() if "bias_" in name and "rho" not in name
    }
    for name, bias in biases.items():
        bias.zero_()
        if "bias_ih" in name:
            held = (1 + (steps - 2) * torch.rand(size)).log().to(bias)
            bias[:size] = -held
            bias[size : 2 * size] = held
