"""Training options that all networks of a comparison share."""

from __future__ import annotations

from typing import Any

from sttau.training import TrainOptions
from sttau.training.options import plain_value

#: Options of every network, unless others are given.
DEFAULTS = TrainOptions(validate_every=50, patience=10, metric="nll")
#: Options that ``compare`` sets itself.
_OWN = ("seed", "metric", "mode", "folder", "callbacks")


def training_options(given: dict[str, Any]) -> TrainOptions:
    """Return the options of training after checking the given ones."""
    refused = sorted(set(given) & set(_OWN))
    if refused:
        raise TypeError(f"compare() sets {', '.join(refused)} itself; leave it out")
    return DEFAULTS.with_changes(**given)


def as_settings(options: TrainOptions, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options as plain values for a result: those that are always recorded, and those that were given."""
    names = dict.fromkeys(("updates", "batch_size", "learning_rate", "validate_every", "patience", *given))
    return {name: plain_value(getattr(options, name)) for name in names}
