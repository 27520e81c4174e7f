"""Settings of a network that learn on small problems, chosen by ``benchmarks/defaults.py`` on validation data."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from sttau.methods.record import DataSpec

#: Size of the hidden state.
HIDDEN_SIZE = 64
#: Steps that a layer reads at most; longer series are read in patches of several steps.
STEPS = 16
#: Tokens of the largest vocabulary that is taken for an alphabet, as in ``sttau.data.read``; larger ones are of words.
ALPHABET = 200
#: How words are read, chosen by ``benchmarks/text_defaults.py``: most words are rare, so that a network without dropout
#: learns the training texts by heart. Symbols of a small alphabet are all needed.
WORDS: dict[str, Any] = {"embedding_scale": 0.1, "model": {"dropout": 0.7, "word_dropout": 0.2}}


def reading_defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    """Return how a network reads its data: scaling and patches of features, or the embedding of tokens.

    Args:
        spec: Description of the data.
        hidden_size: Size of the hidden state.
    """
    settings: dict[str, Any] = {"scale_targets": True} if spec.classes is None else {}
    if spec.features is None:
        return settings | {"embedding_size": hidden_size} | (deepcopy(WORDS) if spec.tokens > ALPHABET else {})
    return settings | {"scale": True, "patch_size": max(1, -(-spec.steps // STEPS))}
