"""Forecasts that the figures show: ``hours.jsonl.gz``, a line for each cell."""

from __future__ import annotations

from typing import Any

#: A line of ``hours.jsonl.gz``: first test hours of one cell, and its PIT histogram.
Hours = dict[str, Any]

ERRORS = 100  # hours of the paper's figure
DAYS = 4  # of the figures of intervals
#: Methods whose intervals are drawn, first seed, by setting.
BANDS: dict[str, tuple[str, ...]] = {
    "day": ("lstm", "ensemble", "st-tau", "boosted trees"),
    "paths": ("lstm", "st-tau"),
}
PIT = ("hour", "day")  # settings whose PIT histograms are drawn


def reduce_hours(line: Hours) -> Hours:
    """Keep what is drawn of the forecasts of a cell.

    Example:
        >>> line = {"setting": "hour", "name": "lstm", "seed": 1, "pit": [1.0], "power": [0.5], "bands": {"50": [0.4]}}
        >>> reduce_hours(line)
        {'setting': 'hour', 'name': 'lstm', 'seed': 1, 'pit': [1.0]}
    """
    setting, kept = line["setting"], {name: line[name] for name in ("setting", "name", "seed")}
    if setting in PIT:
        kept["pit"] = line["pit"]
    if setting == "paper":
        kept["squared_error"] = line["squared_error"][:ERRORS]
        kept["bands"] = {share: line["bands"][share][:ERRORS] for share in ("2.5", "97.5")}
    if line["name"] in BANDS.get(setting, ()) and line["seed"] == 0:
        kept["power"] = line["power"][: 24 * DAYS]
        kept["bands"] = {share: values[: 24 * DAYS] for share, values in line["bands"].items()}
    return kept
