"""How long a new LSTM remembers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sttau.layers.stochastic import StochasticLSTM


@torch.no_grad()
def remember(layer: nn.LSTM | StochasticLSTM, steps: float) -> None:
    """Let the cells of a layer begin with memories of all lengths up to so many steps (Tallec & Ollivier, 2018).

    A cell with forget bias b holds what it knows for about e^b steps. As PyTorch draws biases, all forget within a few
    steps, and a long sequence has to teach them otherwise first. Here b = log(u), u uniform between 1 and ``steps`` -
    1, and input gates are opened by as much less; all other biases are 0.

    Args:
        layer: an LSTM of any kind; its biases are drawn anew.
        steps: about as many as the sequences have, or as matter.

    Example:
        >>> layer = nn.LSTM(3, 100)
        >>> remember(layer, 50)
        >>> held = layer.bias_ih_l0[100:200].exp()
        >>> 1 <= held.min() < 5, 45 < held.max() <= 49
        (tensor(True), tensor(True))
    """
    if not isinstance(layer, nn.LSTM | StochasticLSTM):
        raise TypeError(f"layer must be an LSTM, whose gates hold a memory, got {type(layer).__name__}")
    if not layer.bias:
        raise ValueError("layer has no biases; make it with bias=True")
    if not steps > 2:
        raise ValueError(f"steps must be more than 2, got {steps}")
    size = layer.hidden_size
    biases: dict[str, Tensor] = {
        name: value for name, value in layer.named_parameters() if name.startswith("bias_") and "rho" not in name
    }
    for name, bias in biases.items():
        bias.zero_()
        if name.startswith("bias_ih"):
            held = (1 + (steps - 2) * torch.rand(size)).log().to(bias)
            bias[:size] = -held
            bias[size : 2 * size] = held
