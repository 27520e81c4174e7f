"""The form of a declaration: which networks a table shows, which of their numbers, and what the paper has there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

#: What data sets are called in tables.
DATA: dict[str, str] = {
    "bih": "Heartbeats (MIT-BIH)",
    "imdb": "Reviews (IMDB)",
    "bih_inter_patient": "Heartbeats of other patients",
}

#: A detector that reads nothing but the length of a text: a row in tables of detection.
LENGTH = "length"


@dataclass(frozen=True)
class Column:
    """One number of every network.

    Attributes:
        key: Name among the metrics of a result.
        title: Heading of the column.
        digits: Digits after the decimal point.
        goal: Better direction; None where neither is.
        interval: Where to show the 95 % interval of the first seed, ``{key}_low`` and ``{key}_high``: ``alone``, not
            the number itself, or ``after`` it; None for no interval.
        chance: Whether to show what a calibrated network with the first seed's probabilities would have, in its place.
        count: Whether to show how many seeds have the metric, in its place.

    Example:
        >>> Column("ece", "ECE %", 2).goal
        'min'
    """

    key: str
    title: str
    digits: int
    goal: Literal["min", "max"] | None = "min"
    interval: Literal["alone", "after"] | None = None
    chance: bool = False
    count: bool = False


@dataclass(frozen=True)
class Table:
    """Networks in rows, metrics in columns, one part per data set.

    Attributes:
        name: Name of the table in commands and files.
        title: Title of the table.
        networks: Names of the networks in order, by data set.
        columns: Columns of each data set.
        paper: The paper's values by data set, network and key of the column.
        goals: Goals of ``st-tau-best`` by data set and key of the column.
        others: Titles of rows that are no networks, by their name in results.
    """

    name: str
    title: str
    networks: Mapping[str, tuple[str, ...]]
    columns: tuple[Column, ...]
    paper: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    goals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)


def rows(columns: tuple[Column, ...], numbers: Mapping[str, tuple[float, ...]]) -> dict[str, dict[str, float]]:
    """Name the numbers of each network by the columns they stand in.

    Example:
        >>> rows((Column("pe", "PE %", 2), Column("ece", "ECE %", 2)), {"lstm": (1.4, 0.78)})
        {'lstm': {'pe': 1.4, 'ece': 0.78}}
    """
    keys = [column.key for column in columns]
    return {network: dict(zip(keys, values, strict=True)) for network, values in numbers.items()}
