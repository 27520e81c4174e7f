"""The gain of a new finite-state layer: the factor from u_t to h_t."""

from __future__ import annotations

import math

import torch

from sttau.layers.finite_state import FiniteStateRNN


@torch.no_grad()
def set_gain(layer: FiniteStateRNN, gain: float) -> None:
    """Scale the states so that h_t is initially ``gain`` times u_t, projected on their span (docs/mathematics.md, §7).

    States are centered and scaled. With the default initialization, states of length 2, h_t is 4 / (k τ) of u_t: very
    little with many states or a large τ, so that the gates, and a head that reads h_t, receive little of the past. At a
    fixed gain, a larger τ makes the map more linear and less noisy: for a large τ a layer begins as an LSTM whose
    recurrence has rank k - 1.

    Args:
        layer: New layer; its states are changed, its temperature is not.
        gain: Factor from u_t to h_t.

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
        raise ValueError(f"gain must be positive and finite, got {gain}")
    directions = min(layer.num_states - 1, layer.hidden_size)
    every = [value for name, value in layer.named_parameters() if name.startswith("states_")]
    for states, temperature in zip(every, layer.temperature.reshape(-1), strict=True):
        centered = states - states.mean(0)
        now = centered.square().sum() / (directions * layer.num_states * temperature)
        states.copy_(centered * (gain / now).sqrt())
