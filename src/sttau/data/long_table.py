"""Long tables: one row per step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sttau.data.cells import as_times, describe_rows, is_missing, plain
from sttau.data.columns import Table
from sttau.data.features import warn
from sttau.data.schema import Schema
from sttau.errors import DataError

Ints = npt.NDArray[np.int64]

_FEWEST_RISES = 8  # by which a feature is taken to be a counter


class Series(NamedTuple):
    """Place of every row of a long table."""

    ids: tuple[str, ...]  # in the order they first occur
    series: Ints  # (rows,) number of its series
    steps: Ints  # (rows,) step within it
    first: Ints  # (series,) row of the first step
    lengths: Ints  # (series,)


def find_series(table: Table, schema: Schema) -> Series:
    """Return the series of a long table and the place of every row, in the order of time.

    Without a column of times, rows are in the order of the table. If the data by which it is read had such a column,
    that is an error, except for series of one row, which have no order.
    """
    if schema.id is None:
        raise DataError(
            f"{table.name} has no column that identifies the series of a row; it has {table.listing}. Name it with id=."
        )
    numbers: dict[str, int] = {}
    names = map(plain, table.columns[schema.id])
    series = np.fromiter((numbers.setdefault(name, len(numbers)) for name in names), np.int64, table.rows)
    unnamed = [number for name, number in numbers.items() if is_missing(name)]
    if unnamed:
        rows = [table.row(row) for row in np.flatnonzero(np.isin(series, unnamed)).tolist()]
        raise DataError(
            f"{table.name} has no {schema.id!r} in {describe_rows(rows)}; every row must belong to a series"
        )
    ids = tuple(numbers)
    lengths = np.bincount(series, minlength=len(ids))
    if schema.time is None or schema.time not in table.columns:
        if schema.time is not None and lengths.max() > 1:
            raise DataError(
                f"{table.name} has no column {schema.time!r}, which ordered the rows of each series in training; it "
                f"has {table.listing}. Name the column that orders them with time= (--time), or rename it."
            )
        order = np.argsort(series, kind="stable")
    else:
        cells = table.columns[schema.time]
        times = as_times(table.name, schema.time, cells, table.first)
        order = np.lexsort((times, series))
        _check_times(table, schema.time, cells, ids, series[order], times[order], order)
    starts = np.cumsum(lengths) - lengths
    steps = np.empty(table.rows, dtype=np.int64)
    steps[order] = np.arange(table.rows) - starts[series[order]]
    return Series(ids, series, steps, order[starts], lengths)


def _check_times(
    table: Table, name: str, cells: Any, ids: tuple[str, ...], series: Ints, times: npt.NDArray[Any], order: Ints
) -> None:
    same = np.flatnonzero((series[1:] == series[:-1]) & (times[1:] == times[:-1]))
    if len(same):
        one, two = sorted(order[same[0] : same[0] + 2].tolist())
        raise DataError(
            f"{table.name} has the {name!r} {cells[one]!r} twice in series {ids[series[same[0]]]!r}: "
            f"{describe_rows([table.row(one), table.row(two)])}. Name another column with time=, or rename this one if "
            "the rows are in order."
        )


def warn_counters(where: str, names: tuple[str, ...], values: npt.NDArray[np.float32], place: Series) -> list[str]:
    """Warn of features that only count the steps: in every series, each step adds the same."""
    order = np.lexsort((place.steps, place.series))
    within = place.series[order][1:] == place.series[order][:-1]
    remarks = []
    for number, name in enumerate(names):
        rise = np.diff(values[order, number].astype(np.float64))[within]
        if place.lengths.max() > 2 and len(rise) >= _FEWEST_RISES and rise[0] != 0 and bool((rise == rise[0]).all()):
            remarks.append(
                warn(
                    where,
                    f"feature {name!r} only counts the steps ({rise[0]:+g} in each); use time={name!r} if it orders "
                    "the rows, or leave it out with features=",
                )
            )
    return remarks


def pad(values: npt.NDArray[np.float32], place: Series, out: npt.NDArray[np.float32]) -> None:
    """Write the features of all rows to (series, time, features), which is zero before."""
    out[place.series, place.steps] = values
