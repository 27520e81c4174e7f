"""Columns of the comparison table: all metrics, and the cost of a method."""

from __future__ import annotations

from typing import NamedTuple

from sttau.metrics.record import Direction
from sttau.metrics.registry import COLUMNS as METRIC_COLUMNS


class Column(NamedTuple):
    """A column: its heading, whether smaller or larger is better, and its digits after the decimal point."""

    title: str
    goal: Direction | None
    digits: int


#: Every column by its name in results, in the order of the table.
COLUMNS: dict[str, Column] = {
    name: Column(metric.heading, metric.direction, metric.digits) for name, metric in METRIC_COLUMNS.items()
} | {
    "parameters": Column("parameters", None, 0),
    "seconds": Column("training s", None, 1),
    "predict_ms": Column("ms per prediction", None, 3),
}
