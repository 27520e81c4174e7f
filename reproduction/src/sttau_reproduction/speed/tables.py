"""Tables of speed, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from sttau.jobs import Result
from sttau_reproduction.speed.baselines import TASKS

BASELINES = ("shape", "method", "training", "forward", "10 samples")
COMPILED = ("network and batch", "compiled", "soft", "exact", "compiled / soft")


def baseline_table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Rows under ``BASELINES``: what the baselines take, as a part of ``nn.LSTM``'s time; ten samples of one pass."""
    results = list(results)
    theirs = {result.data: result.metrics for result in results if result.method == "lstm"}
    return [
        (r.data, r.method, *(f"{r.metrics[f'{task}_ms'] / theirs[r.data][f'{task}_ms']:.2f}" for task in TASKS))
        for r in results
        if r.method != "lstm"
    ]


def compiled_rows(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Million symbols a second of each network and method, and how many times faster the tables are: rows of text."""
    networks: dict[str, dict[str, dict[str, float]]] = {}
    for result in results:
        networks.setdefault(result.data, {})[result.method] = result.metrics
    return [
        (
            name,
            *(f"{methods[m]['million_symbols_per_second']:.1f}" for m in ("compiled", "st-tau soft", "st-tau exact")),
            f"{methods['compiled']['times_soft']:.0f}×",
        )
        for name, methods in networks.items()
    ]
