"""The sampling-free GRU."""

from __future__ import annotations

from typing import Any

from sttau.layers import SamplingFreeGRU
from sttau.methods.record import DataSpec, Method


def _defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    """A small initial variance: gates whose variance is large are all near one half."""
    return {"rho": -5.0, "prior_scale": 0.5}


METHOD = Method("sp-gru", "SP-GRU", "#9d174d", {"gru": SamplingFreeGRU}, sampling="states", defaults=_defaults)
