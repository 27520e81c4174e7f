"""Tables of speed, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from sttau.jobs import Result
from sttau_reproduction.speed.baselines import TASKS

BASELINES = ("shape", "method", "training", "forward", "10 samples")
ROOFLINE = (
    "shape",
    "chain, µs per step",
    "forward, µs per step",
    "backward, µs per step",
    "both kernels, µs",
    "products, µs",
    "rest, µs",
    "bytes, µs",
    "operations, µs",
)
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


def roofline_table(
    results: Iterable[Result], bytes_per_second: float, operations_per_second: float
) -> list[tuple[str, ...]]:
    """Return rows for ``ROOFLINE``: kernels of a training step and their bounds (``benchmarks/roofline.py``)."""
    rows = []
    for result in results:
        m = result.metrics
        rows.append(
            (
                result.data,
                *(f"{m[f'{name}_us_per_step']:.2f}" for name in ("serial", "forward", "backward")),
                f"{m['forward_us'] + m['backward_us']:.0f}",
                *(f"{m[f'{name}_us']:.0f}" for name in ("products", "rest")),
                f"{1e6 * m['bytes'] / bytes_per_second:.0f}",
                f"{1e6 * m['operations'] / operations_per_second:.0f}",
            )
        )
    return rows
