"""Bayes by Backprop."""

from __future__ import annotations

from typing import Any

from sttau.layers import BayesLSTM
from sttau.methods.record import DataSpec, Method


def _defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    """Limit the width to two weights per training sequence: each learned weight costs likelihood."""
    size = hidden_size
    while size > 8 and 4 * size * ((spec.features or hidden_size) + size + 2) > 2 * spec.sequences:
        size -= 1
    return {"prior_scale": 0.5, "hidden_size": size}


METHOD = Method("bayes", "Bayes LSTM", "#c53030", {"lstm": BayesLSTM}, sampling="weights", defaults=_defaults)
