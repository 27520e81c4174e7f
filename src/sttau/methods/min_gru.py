"""Minimal GRUs and LSTMs."""

from __future__ import annotations

from typing import Any

from sttau.layers import MinGRU, MinLSTM
from sttau.methods.record import DataSpec, Method


def _defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    """Two layers: the gates of one do not depend on the order of what was read."""
    return {"num_layers": 2}


METHOD = Method("min-gru", "minGRU", "#0e7490", {"gru": MinGRU, "lstm": MinLSTM}, defaults=_defaults)
