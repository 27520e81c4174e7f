"""Training options that all networks of a comparison share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Options of every network, unless others are given.
DEFAULTS: dict[str, Any] = {
    "updates": 1000,
    "batch_size": 64,
    "learning_rate": 0.01,
    "validate_every": 50,
    "patience": 10,
}
#: Options of ``training.fit`` that ``compare`` accepts; it sets the others itself.
OPTIONS = frozenset(
    {
        *DEFAULTS,
        "average",
        "bucket_batches",
        "checkpoint_every",
        "clip_norm",
        "cuda_graphs",
        "optimizer",
        "precision",
        "schedule",
        "warmup",
        "weight_decay",
    }
)


def training_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all training options after checking the given ones; the only place that knows their names."""
    unknown = set(given) - OPTIONS
    if unknown:
        raise TypeError(f"compare() takes no {', '.join(sorted(unknown))}; see its arguments and training.fit's")
    return DEFAULTS | dict(given)
