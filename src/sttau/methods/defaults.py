"""Settings of a network that learn on small problems, chosen by ``benchmarks/defaults.py`` on validation data."""

from __future__ import annotations

from typing import Any

from sttau.methods.record import DataSpec

#: Size of the hidden state.
HIDDEN_SIZE = 64
#: Steps that a layer reads at most; longer series are read in patches of several steps.
STEPS = 16


def reading_defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    """Return how a network reads its data: scaling and patches of features, or the embedding of tokens.

    Args:
        spec: Description of the data.
        hidden_size: Size of the hidden state.
    """
    settings: dict[str, Any] = {"scale_targets": True} if spec.classes is None else {}
    if spec.features is None:
        return settings | {"embedding_size": hidden_size}
    return settings | {"scale": True, "patch_size": max(1, -(-spec.steps // STEPS))}
