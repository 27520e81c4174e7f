"""The last-layer Laplace approximation of a plain LSTM or GRU."""

from __future__ import annotations

from typing import Any

from torch import nn

from sttau.methods.record import DataSpec, Method


def _defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    return {"size": 10}


METHOD = Method(
    "laplace",
    "Laplace",
    "#6b7f2a",
    {"lstm": nn.LSTM, "gru": nn.GRU},
    sampling="members",
    defaults=_defaults,
    posterior="laplace",
)
