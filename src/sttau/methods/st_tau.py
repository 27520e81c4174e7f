"""ST-τ, the paper's method."""

from __future__ import annotations

from typing import Any

from sttau.layers import STTauGRU, STTauLSTM
from sttau.methods.record import DataSpec, Method


def state_defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    """Ten states; a head that reads the cell's output trains more easily than one that reads states."""
    return {"num_states": 10, "readout": "cell"}


def _defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    """A recurrence that begins with gain 1 learns more easily, too."""
    return {**state_defaults(spec, hidden_size), "gain": 1.0}


METHOD = Method(
    "st-tau",
    "ST-τ LSTM",
    "#2563ab",
    {"lstm": STTauLSTM, "gru": STTauGRU},
    sampling="states",
    defaults=_defaults,
)
