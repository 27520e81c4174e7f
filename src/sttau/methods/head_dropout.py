"""Monte Carlo dropout of the head."""

from __future__ import annotations

from typing import Any

from sttau.layers import HeadDropoutLSTM
from sttau.methods.record import DataSpec, Method


def _defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    return {"dropout": 0.2}


METHOD = Method(
    "head-dropout", "dropout of the head", "#b45309", {"lstm": HeadDropoutLSTM}, sampling="masks", defaults=_defaults
)
