"""How much a new finite-state layer passes on."""

from __future__ import annotations

import math

import torch

from sttau.layers.st_tau import FiniteStateRNN


@torch.no_grad()
def set_gain(layer: FiniteStateRNN, gain: float) -> None:
    """Let h_t begin as ``gain`` times u_t, projected on the span of the states (docs/mathematics.md, §7).

    States are centered and made as long as that needs. As a layer is made, with states of length 2, its mixture passes
    on 4 / (k τ) of u_t: next to nothing with many states or a large τ, so that the gates, and a head that reads h_t,
    learn little of what came before. With the gain held, τ says how linear the map is, and how little noise comes with
    it: for a large τ a layer begins as an LSTM whose recurrence has rank k - 1.

    Args:
        layer: freshly made; its states are changed, its temperature is not.
        gain: 1 for u_t itself.

    Example:
        >>> from sttau import STTauLSTM
        >>> layer = STTauLSTM(3, 64, num_states=16, temperature=400.0)
        >>> set_gain(layer, 2.0)
        >>> u = 0.001 * (layer.states[0] - layer.states[1])
        >>> h = layer.states.T @ (layer.states @ u / layer.temperature).softmax(0)
        >>> round((h.norm() / u.norm()).item(), 2)
        2.0
    """
    if not isinstance(layer, FiniteStateRNN):
        raise TypeError(f"layer must have states, as STTauLSTM has, got {type(layer).__name__}")
    if not (gain > 0 and math.isfinite(gain)):
        raise ValueError(f"gain must be a positive number, got {gain}")
    directions = min(layer.num_states - 1, layer.hidden_size)
    every = [value for name, value in layer.named_parameters() if name.startswith("states_")]
    for states, temperature in zip(every, layer.temperature.reshape(-1), strict=True):
        centered = states - states.mean(0)
        now = centered.square().sum() / (directions * layer.num_states * temperature)
        states.copy_(centered * (gain / now).sqrt())
