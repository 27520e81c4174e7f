"""SWAG: an ensemble drawn from the weights that further training passes through."""

from __future__ import annotations

from typing import Any

from torch import nn

from sttau.methods.record import DataSpec, Method


def _defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    return {"size": 10}


METHOD = Method(
    "swag",
    "SWAG",
    "#2b6cb0",
    {"lstm": nn.LSTM, "gru": nn.GRU},
    sampling="members",
    defaults=_defaults,
    posterior="swag",
)
