"""Variational dropout."""

from __future__ import annotations

from typing import Any

from sttau.layers import VariationalDropoutLSTM
from sttau.methods.record import DataSpec, Method


def _defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    return {"dropout": 0.1} | ({"input_dropout": 0.0} if spec.features == 1 else {})


METHOD = Method(
    "dropout",
    "variational dropout",
    "#d97706",
    {"lstm": VariationalDropoutLSTM},
    sampling="masks",
    defaults=_defaults,
)
