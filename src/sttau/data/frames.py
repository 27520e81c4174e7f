"""Data frames of other libraries as tables: pandas, polars, PyArrow and Hugging Face ``datasets``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sttau.data.cells import as_numbers
from sttau.data.columns import Choose, Column, Table
from sttau.errors import DataError


def as_table(frame: Any, choose: Choose) -> Table:
    """Return the columns of a data frame; none of the libraries is imported here.

    Args:
        frame: ``pandas.DataFrame``, ``polars.DataFrame`` or ``LazyFrame``, ``pyarrow.Table``, or ``datasets.Dataset``.
        choose: Function from the names of the columns to those to read.
    """
    names, read, rows = _open(frame)
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise DataError(f"frame has more than one column {twice[0]!r}; give each a name of its own")
    columns: dict[str, Column] = {}
    for name, keep in choose(names).items():
        cells = read(names.index(name))
        numbers = None if keep else _as_floats(cells)
        columns[name] = list(cells) if numbers is None else numbers
    return Table("frame", columns, rows, header=tuple(names))


def _open(frame: Any) -> tuple[list[str], Callable[[int], Sequence[Any]], int]:
    """Return the names of columns, a function from a column's place to its cells, and the number of rows."""
    packages = {kind.__module__.partition(".")[0] for kind in type(frame).__mro__}
    if "pandas" in packages and hasattr(frame, "columns"):
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index()  # such as series and time of sktime
        return [str(name) for name in frame.columns], lambda place: frame.iloc[:, place].to_numpy(), len(frame)
    if "polars" in packages and hasattr(frame, "collect"):
        frame = frame.collect()
    if "polars" in packages and hasattr(frame, "columns"):
        return list(frame.columns), lambda place: frame.to_series(place).to_list(), len(frame)
    if "pyarrow" in packages and hasattr(frame, "column_names"):
        return list(frame.column_names), lambda place: frame.column(place).to_pylist(), int(frame.num_rows)
    if "datasets" in packages and isinstance(getattr(frame, "column_names", None), list):
        names = list(frame.column_names)
        return names, lambda place: list(frame[names[place]]), len(frame)
    if "datasets" in packages:
        raise TypeError(
            f"{type(frame).__name__} has several parts or is a stream; pass one Dataset, such as data['train']"
        )
    raise TypeError(
        f"cannot read a {type(frame).__name__}; expected the path of a file, a data frame of pandas, polars or "
        "PyArrow, or a datasets.Dataset. For arrays call sttau.data.from_arrays."
    )


def _as_floats(cells: Sequence[Any]) -> Any:
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
        return cells.astype(np.float64)
    return as_numbers(cells)
