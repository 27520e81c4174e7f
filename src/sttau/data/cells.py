"""Single cells of a table: missing values, names and numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

_NOTHING = {"", "na", "n/a", "nan", "null", "none", "?"}
_SHOWN = 5


def is_missing(cell: Any) -> bool:
    """Whether a cell holds no value.

    Example:
        >>> is_missing("n/a"), is_missing(0)
        (True, False)
    """
    if isinstance(cell, str):
        return cell.strip().lower() in _NOTHING
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def as_name(cell: Any) -> str:
    """Return a name as text, the same for 1, 1.0 and "1".

    Example:
        >>> as_name(1.0), as_name(" a ")
        ('1', 'a')
    """
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return str(cell).strip()


def as_number(path: Path, cell: Any, name: str, row: int) -> float:
    """Return a finite number, or raise an error that names column and row."""
    try:
        number = float(cell)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path.name} has {cell!r} as {name!r} in row {row}; expected a number. "
            "If that column is no feature, name the features with features=[…]."
        ) from error
    if not math.isfinite(number):
        raise ValueError(f"{path.name} has {cell!r} as {name!r} in row {row}; expected a finite number")
    return number


def describe_rows(rows: list[int]) -> str:
    """Return the numbers of the first rows, for an error message.

    Example:
        >>> describe_rows([3, 5])
        'rows 3, 5'
    """
    shown = ", ".join(map(str, rows[:_SHOWN])) + (f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else "")
    return f"row{'s' * (len(rows) > 1)} {shown}"
