"""A mixture of probabilistic automata: ST-τ GRUs in exact mode that are trained for what they predict together."""

from __future__ import annotations

from typing import Any

from sttau.layers import STTauGRU
from sttau.methods.record import DataSpec, Method


def _defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    """Four automata of eight states; a mixture of Gaussians is not trained as one yet."""
    return {"size": 4, "num_states": 8, "mode": "exact", "joint": 0.0 if spec.classes is None else 0.5}


METHOD = Method("mixture", "mixture of automata", "#0f766e", {"gru": STTauGRU}, sampling="members", defaults=_defaults)
