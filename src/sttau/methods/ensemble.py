"""Deep ensembles of plain LSTMs or GRUs."""

from __future__ import annotations

from typing import Any

from torch import nn

from sttau.methods.record import DataSpec, Method


def _defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    return {"size": 5}


METHOD = Method(
    "ensemble", "deep ensemble", "#2f855a", {"lstm": nn.LSTM, "gru": nn.GRU}, sampling="members", defaults=_defaults
)
