"""Cells of people's files: missing values, numbers, names and times."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from datetime import date, datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from sttau.errors import DataError

Numbers = npt.NDArray[np.float64]

_NO_NAME = {"", "na", "n/a", "nan"}  # missing in every column
_MISSING = {*_NO_NAME, "null", "none", "?"}  # in columns of numbers; among words, these may be names
_SHOWN = 5
_LARGEST = float(np.finfo(np.float32).max)
_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)?(,\d+)?([eE][+-]?\d+)?")
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)")


def as_number(cell: Any, comma: bool = False) -> float | None:
    """Return a cell as a float, NaN where it is missing, or None where it is no number.

    Args:
        cell: Content of the cell.
        comma: Whether the decimal separator is a comma, and the point one of thousands.

    Example:
        >>> as_number("1.234,5", comma=True), as_number("1e3"), as_number("NA"), as_number("fast")
        (1234.5, 1000.0, nan, None)
    """
    if is_missing(cell):
        return math.nan
    if isinstance(cell, str) and "_" in cell:  # which Python reads as a separator of digits
        return None
    if comma and isinstance(cell, str):
        if not _COMMA.fullmatch(cell.strip()):
            return None
        cell = cell.replace(".", "").replace(",", ".")
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def as_numbers(cells: Sequence[Any], comma: bool = False) -> Numbers | None:
    """Return cells as floats, NaN where they are missing, or None if one of them is no number.

    Example:
        >>> as_numbers(["1", "", "2.5"]).tolist(), as_numbers(["1", "red"]), as_numbers(["1_000"])
        ([1.0, nan, 2.5], None, None)
    """
    if not comma:
        try:
            found = np.fromiter(map(float, cells), np.float64, len(cells))
            if not any("_" in cell for cell in cells if isinstance(cell, str)):
                return found
        except (TypeError, ValueError, OverflowError):
            pass
    numbers = np.empty(len(cells))
    for row, cell in enumerate(cells):
        number = as_number(cell, comma)
        if number is None:
            return None
        numbers[row] = number
    return numbers


def check_numbers(where: str, name: str, numbers: Numbers, first: int = 0) -> Numbers:
    """Return numbers that float32 can hold; an error that names file, column and row for others. NaN is allowed.

    Args:
        where: Name of the file.
        name: Name of the column.
        numbers: Its values.
        first: Number of rows of the file before the first.
    """
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero(np.abs(numbers) > _LARGEST)
    if len(wrong):
        check_number(where, name, float(numbers[wrong[0]]), int(wrong[0]) + 1 + first)
    return numbers


def check_number(where: str, name: str, number: float, row: int) -> float:
    """Return a number that float32 can hold, or NaN; an error that names file, column and row for others."""
    if abs(number) > _LARGEST:
        what = "a finite number" if math.isinf(number) else f"at most {_LARGEST:.3g}, the largest that float32 holds"
        raise DataError(
            f"{where} has {number:g} as {name!r} in row {row}; expected {what}. "
            "Correct it, leave the cell empty, or use other units."
        )
    return number


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty, NaN or a common word for a missing value."""
    if isinstance(cell, str):
        return cell.strip().lower() in _MISSING
    if cell is None or type(cell).__name__ in ("NaTType", "NAType"):  # of pandas
        return True
    return (isinstance(cell, float) and math.isnan(cell)) or (isinstance(cell, np.datetime64) and bool(np.isnat(cell)))


def plain(cell: Any) -> str:
    """Return a name as text, the same whether a file holds 1, 1.0 or "1"."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
        cell = int(cell)
    return str(cell).strip()


def as_names(cells: Any, known: Collection[str] = ()) -> list[str | None]:
    """Return classes or categories as text, None where they are missing.

    ``none``, ``null`` and ``?`` are names if they are known or, where none are known, if other cells hold words.

    Args:
        cells: Content of the cells.
        known: Names of the training data.

    Example:
        >>> as_names(["none", "fault", "NA"]), as_names(["1", "?"]), as_names(["none", "?"], known=("none", "fault"))
        (['none', 'fault', None], ['1', None], ['none', None])
    """
    texts = [None if is_missing(cell) and not _may_be_name(cell) else plain(cell) for cell in cells]
    gaps = set(filter(_may_be_name, texts)).difference(known)
    if not gaps or (not known and any(as_number(cell) is None for cell in cells)):
        return texts
    return [None if text in gaps else text for text in texts]


def _may_be_name(cell: Any) -> bool:
    return isinstance(cell, str) and cell.strip().lower() in _MISSING - _NO_NAME


def describe_rows(rows: Sequence[int]) -> str:
    """Return row numbers as text, the first few of many.

    Example:
        >>> describe_rows([3]), describe_rows(range(1, 9))
        ('row 3', 'rows 1, 2, 3, 4, 5 and 3 more')
    """
    shown = ", ".join(map(str, rows[:_SHOWN])) + (f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else "")
    return f"row{'s' * (len(rows) > 1)} {shown}"


# -- times -------------------------------------------------------------------------------------------------------------


def as_times(where: str, name: str, cells: Any, first: int = 0) -> npt.NDArray[Any]:
    """Return times as int64 or float64 that sort as they do: numbers as they are, dates as seconds since 1970.

    Args:
        where: Name of the file.
        name: Name of the column.
        cells: Numbers, dates, or ISO dates as text.
        first: Number of rows of the file before the first.
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        times: npt.NDArray[Any] = cells
    else:
        try:  # integers first: nanoseconds since 1970 are more than a float can tell apart
            times = np.fromiter(map(_whole, cells), np.int64, len(cells))
        except (TypeError, ValueError, OverflowError):
            times = np.array([_time(where, name, cell, row + 1 + first) for row, cell in enumerate(cells)])
    missing = np.flatnonzero(~np.isfinite(times))
    if len(missing):
        raise DataError(
            f"{where} has no {name!r} in {describe_rows((missing + 1 + first).tolist())}; fill it in, or leave out the "
            "whole column"
        )
    return times


def _whole(cell: Any) -> int:
    if isinstance(cell, str) and "_" in cell:
        raise ValueError
    if isinstance(cell, (str, int, np.integer)) and not isinstance(cell, bool):
        return int(cell)
    raise TypeError


def _time(where: str, name: str, cell: Any, row: int) -> float:
    if is_missing(cell):
        return math.nan
    try:
        time = _moment(cell)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{where} has {cell!r} as {name!r} in row {row}; expected a number or an ISO date such as 2024-12-31 23:59"
        ) from error
    if not math.isfinite(time):
        raise DataError(f"{where} has {cell!r} as {name!r} in row {row}; expected a finite number or an ISO date")
    return time


def _moment(cell: Any) -> float:
    """Return a time as a float; dates without a zone are taken as UTC, since only their order matters."""
    if isinstance(cell, str):
        number = as_number(cell)
        if number is not None:
            return number
        cell = as_date(cell)
    if isinstance(cell, np.datetime64):
        return float(cell.astype("datetime64[us]").astype(np.int64)) / 1e6
    if isinstance(cell, datetime):
        return (cell if cell.tzinfo else cell.replace(tzinfo=timezone.utc)).timestamp()
    if isinstance(cell, date):
        return float((cell.toordinal() - date(1970, 1, 1).toordinal()) * 86400)
    return float(cell)


def as_date(text: str) -> datetime:
    """Return a date in ISO form, or with the day first and points, as a datetime; a ValueError for other text.

    Example:
        >>> as_date("2024-12-31T23:59Z").year, as_date("31.12.2024 23:59").day
        (2024, 31)
    """
    text = text.strip()
    points = _DAY_FIRST.fullmatch(text)
    if points:
        day, month, year, rest = points.groups()
        text = f"{year}-{int(month):02}-{int(day):02}{rest}"
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def holds_dates(cells: Any) -> bool:
    """Whether all cells that are not missing are dates, or text that is a date and no number."""
    found = [cell for cell in cells[:100] if not is_missing(cell)]
    for cell in found:
        if isinstance(cell, (date, np.datetime64)):
            continue
        if not isinstance(cell, str):
            return False
        try:
            as_date(cell)
        except ValueError:
            return False
    return bool(found)
