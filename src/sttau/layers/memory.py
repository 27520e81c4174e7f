"""Chrono initialization: how long a new layer keeps what it has read."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sttau.layers.torch_rnn import as_layer


@torch.no_grad()
def set_memory(layer: nn.Module, steps: float) -> None:
    """Initialize a layer for memories of all lengths up to ``steps`` (Tallec & Ollivier, 2018).

    An LSTM cell with forget bias b keeps its content for about e^b steps, as does a unit of a GRU with update bias b.
    With PyTorch's initialization all of them forget within a few steps, which long sequences must unlearn first. Here
    b = log(u) with u uniform between 1 and ``steps`` - 1, and an LSTM's input bias is -b; all other biases are 0.

    The states of a finite-state GRU are scaled in addition, to the length √log((k - 1)(steps - 1)). A unit that keeps
    its state s_i gives s_i the logit ‖s_i‖² and the others 0: with this length, drawn states stay for about ``steps``
    steps. (The memory of a finite-state LSTM is its cell.)

    Args:
        layer: LSTM or GRU of any kind; its biases, and the states of a finite-state GRU, are overwritten.
        steps: Longest memory, about the length of the sequences.

    Example:
        >>> layer = nn.LSTM(3, 100)
        >>> set_memory(layer, 50)
        >>> held = layer.bias_ih_l0[100:200].exp()
        >>> 1 <= held.min() < 5, 45 < held.max() <= 49
        (tensor(True), tensor(True))
    """
    rnn = as_layer(layer)
    if not rnn.bias:
        raise ValueError("layer has no biases; construct it with bias=True")
    if not steps > 2:
        raise ValueError(f"steps must be more than 2, got {steps}")
    size = rnn.hidden_size
    biases: dict[str, Tensor] = {
        name: value for name, value in layer.named_parameters() if "bias_" in name and "rho" not in name
    }
    if not any("bias_hh" in name for name in biases):
        raise TypeError(f"layer must have the gates of an LSTM or a GRU, got {rnn.kind}")
    for name, bias in biases.items():
        bias.zero_()
        if "bias_ih" in name:
            held = (1 + (steps - 2) * torch.rand(size)).log().to(bias)
            bias[size : 2 * size] = held  # the forget gate of an LSTM, the update gate of a GRU
            if rnn.is_lstm:
                bias[:size] = -held
    if rnn.num_states is not None and not rnn.is_lstm:
        length = math.sqrt(math.log((rnn.num_states - 1) * (steps - 1)))
        for states in (value for name, value in layer.named_parameters() if name.startswith("states_")):
            states.mul_(length / states.norm(dim=-1, keepdim=True))
