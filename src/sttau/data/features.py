"""Feature columns of a table: numbers, categories and dates, one row per step."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sttau.data.cells import (
    Numbers,
    as_names,
    as_number,
    as_times,
    check_numbers,
    describe_rows,
    holds_dates,
    is_missing,
)
from sttau.data.columns import Table
from sttau.data.dataset import Described
from sttau.data.schema import TIME_NAMES, Missing, Schema, list_names
from sttau.errors import DataError

_MOST_CATEGORIES = 100
_WITH_COMMA = re.compile(r"\s*[+-]?\d+([.,]\d+)*,\d+([.,]\d+)?\s*")
_COARSE = 0.01  # largest step between neighboring numbers of float32, in standard deviations
_SAME = 1e-13  # standard deviation, relative to the largest value, up to which a column is constant but for rounding


class Features(NamedTuple):
    """Features of all rows of a table."""

    values: npt.NDArray[np.float32]  # (rows, features), NaN where one is missing
    names: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    remarks: tuple[str, ...]


def warn(where: str, text: str) -> str:
    """Issue a warning about a file, and return its text for the remarks of the data set."""
    warnings.warn(f"{where}: {text}", UserWarning, stacklevel=2)
    return f"warning: {text}"


def warn_coarse(where: str, what: str, parts: Iterable[npt.NDArray[Any]]) -> list[str]:
    """Warn if float32 holds values with a large loss: their differences are small compared with the values themselves.

    Args:
        where: Name of the file.
        what: What the values are, such as ``column 'x'``.
        parts: Values in their original precision, in one array or several; NaN and infinity are left out.

    Example:
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = warn_coarse("t.csv", "column 'x'", [1.7e9 + np.arange(100.0)])
        >>> print(str(caught[0].message)[:68])
        t.csv: column 'x' loses precision: its values are stored as float32,
    """
    count, offset, total, squares, largest = 0, 0.0, 0.0, 0.0, 0.0
    for part in parts:
        known = part[np.isfinite(part)].astype(np.float64)
        if not known.size:
            continue
        largest = max(largest, float(np.abs(known).max()))
        offset = offset if count else float(known.flat[0])
        shifted = known - offset
        count, total, squares = count + known.size, total + float(shifted.sum()), squares + float((shifted**2).sum())
    if not count or largest > np.finfo(np.float32).max:
        return []
    deviation = max(0.0, squares / count - (total / count) ** 2) ** 0.5
    if deviation <= _SAME * largest or float(np.spacing(np.float32(largest))) <= _COARSE * deviation:
        return []
    return [
        warn(
            where,
            f"{what} loses precision: its values are stored as float32, whose steps at the largest of them are more "
            f"than {_COARSE:.0%} of the standard deviation; subtract an offset, such as the smallest value, or use "
            "differences",
        )
    ]


def feature_columns(names: Sequence[str], categories: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the columns that features were made of: one for all categories of a column.

    Example:
        >>> feature_columns(("pulse", "sex=f", "sex=m"), {"sex": ("f", "m")})
        ('pulse', 'sex')
    """
    origin = {f"{column}={value}": column for column, values in categories.items() for value in values}
    return tuple(dict.fromkeys(origin.get(name, name) for name in names))


def choose_features(
    table: Table, schema: Schema, like: Described | None, features: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the feature columns of a table, and remarks on columns that are none."""
    remarks: list[str] = []
    if features is not None:
        names = tuple(features)
        if schema.target in names:
            raise DataError(f"{table.name}: features= names {schema.target!r}, which is the target")
    elif like is not None:
        if not like.feature_names:
            raise DataError(
                "like has no feature names; was it trained on a table? "
                "For a model, call model.set_metadata(train) before it is saved."
            )
        names = feature_columns(like.feature_names, schema.categories)
    else:
        rest = [name for name in table.columns if name not in schema.roles.values()]
        dates = [name for name in rest if isinstance(cells := table.columns[name], list) and holds_dates(cells)]
        for name in dates:
            remarks.append(
                warn(table.name, f"column {name!r} holds dates and is not used; name it with time= or in features=")
            )
        names = tuple(name for name in rest if name not in dates)
        for name in names:
            if name.lower() in TIME_NAMES:
                remarks.append(
                    warn(
                        table.name,
                        f"column {name!r} is used as a feature, though its name suggests a time; use time={name!r} if "
                        "it orders the rows, or list the features with features=",
                    )
                )
    lacking = [name for name in names if name not in table.columns]
    if lacking or not names:
        what = f"no column {lacking[0]!r} for a feature" if lacking else "no columns for features"
        raise DataError(f"{table.name} has {what}; it has {table.listing}")
    return names, tuple(remarks)


def make_features(
    table: Table, columns: Sequence[str], schema: Schema, like: Described | None, missing: Missing
) -> Features:
    """Return features as float32, categories as one column each.

    Args:
        table: Table with the columns.
        columns: Feature columns, in order.
        schema: Roles of the columns, with the categories of ``like``.
        like: Training data or a model; without one, categories are found.
        missing: Whether missing values are kept as NaN.
    """
    parts: list[npt.NDArray[Any]] = []
    names: list[str] = []
    categories: dict[str, tuple[str, ...]] = {}
    remarks: list[str] = []
    for name in columns:
        column = table.columns[name]
        is_text = isinstance(column, list) and like is None and not _is_number_column(table, name)
        if name not in schema.categories and not is_text:
            numbers = column_numbers(table, name)
            parts.append(numbers[:, None])
            remarks += warn_coarse(table.name, f"column {name!r}", [numbers]) if like is None else []
            names.append(name)
            continue
        if like is None and _have_commas(table, name):
            remarks.append(
                warn(
                    table.name,
                    f"column {name!r} is read as categories, though its cells look like numbers with a comma; write "
                    "decimals with a point and thousands without a separator",
                )
            )
        texts = as_names(column, schema.categories.get(name, ()))
        known = schema.categories.get(name) or check_categories(table.name, name, sorted(set(filter(None, texts))))
        values, unknown = _one_hot(texts, known)
        if unknown:
            remarks.append(
                warn(table.name, f"column {name!r} has categories that training had not: {list_names(unknown)}")
            )
        parts.append(values)
        names += [f"{name}={value}" for value in known]
        categories[name] = known
    twice = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
    if twice:
        raise DataError(f"{table.name} gives two features the name {twice[0]!r}; rename a column")
    if missing == "error":
        _check_missing(table, dict(zip(columns, _gaps(parts), strict=True)))
    values32 = np.concatenate([part.astype(np.float32) for part in parts], axis=1)
    return Features(values32, tuple(names), categories, tuple(remarks))


def _gaps(parts: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[np.bool_]]:
    return [np.isnan(part[:, 0]) for part in parts]


def _check_missing(table: Table, gaps: Mapping[str, npt.NDArray[np.bool_]]) -> None:
    rows = {name: [table.row(row) for row in np.flatnonzero(gap).tolist()] for name, gap in gaps.items() if gap.any()}
    if rows:
        raise_missing(table.name, rows)


def raise_missing(where: str, rows: Mapping[str, Sequence[int]]) -> None:
    """Raise the error for missing values.

    Args:
        where: Name of the file.
        rows: Rows of each column where its value is missing.
    """
    total = sum(map(len, rows.values()))
    shown = [f"{name!r} in {describe_rows(found)}" for name, found in list(rows.items())[:5]]
    raise DataError(
        f"{where} has {total:,} missing value{'s' * (total > 1)}: {'; '.join(shown)}{'; …' if len(rows) > 5 else ''}. "
        'Fill them in, leave those series out, or pass missing="keep" for a model that reads NaN.'
    )


def _is_number_column(table: Table, name: str) -> bool:
    """Whether a column that is not all numbers is meant to be: half of its cells are, or it was in training."""
    cells = table.columns[name]
    if holds_dates(cells):
        return True
    found = [cell for cell in cells if not is_missing(cell)]
    if any(isinstance(cell, (dict, list, tuple, np.ndarray)) for cell in found):
        return True
    numbers = sum(as_number(cell, table.comma) is not None for cell in found)
    return 2 * numbers >= len(found)


def _have_commas(table: Table, name: str) -> bool:
    """Whether most cells of a column of texts are numbers but for a comma, of decimals or of thousands."""
    found = [cell for cell in table.columns[name] if not is_missing(cell)]
    commas = sum(isinstance(cell, str) and _WITH_COMMA.fullmatch(cell) is not None for cell in found)
    return 2 * commas > len(found)


def _truths(cells: list[Any]) -> list[Any]:
    """Return 1 and 0 for a column of ``true`` and ``false``, which files of text hold where others hold booleans."""
    truths = {"true": 1, "false": 0}
    if not all(isinstance(cell, bool) or is_missing(cell) or str(cell).strip().lower() in truths for cell in cells):
        return cells
    return [truths.get(cell.strip().lower(), cell) if isinstance(cell, str) else cell for cell in cells]


def column_numbers(table: Table, name: str) -> Numbers:
    """Return a column as floats, dates as days since 1970, ``true`` and ``false`` as 1 and 0.

    An error names the row of what is no number.
    """
    column = table.columns[name]
    if isinstance(column, list):
        if holds_dates(column):
            days = np.full(len(column), np.nan)
            known = [row for row, cell in enumerate(column) if not is_missing(cell)]
            days[known] = as_times(table.name, name, [column[row] for row in known], table.first) / 86400
            return days
        column = _truths(column)
        for row, cell in enumerate(column):
            if as_number(cell, table.comma) is None:
                raise DataError(
                    f"{table.name} has {cell!r} as {name!r} in row {table.row(row)}; expected a number"
                    f"{' with a decimal comma' if table.comma else ''}. "
                    "If that column is not a feature, name those that are with features=[…]."
                )
        column = np.array([as_number(cell, table.comma) for cell in column], dtype=np.float64)
    return check_numbers(table.name, name, column, table.first)


def check_categories(where: str, name: str, found: Sequence[str]) -> tuple[str, ...]:
    """Return the categories of a column; an error if there are so many that it must be something else."""
    if len(found) > _MOST_CATEGORIES:
        raise DataError(
            f"{where} has {len(found):,} different texts in column {name!r}, such as {found[0][:40]!r}; at most "
            f"{_MOST_CATEGORIES} are read as categories. If it identifies the series, pass id={name!r}; if it is text, "
            f"text={name!r}; else leave it out with features=[…]."
        )
    return tuple(found)


def _one_hot(texts: Sequence[str | None], known: Sequence[str]) -> tuple[npt.NDArray[np.float32], list[str]]:
    """Return (rows, categories), zeros where the category is not known and NaN where it is missing."""
    places = {value: place for place, value in enumerate(known)}
    values = np.zeros((len(texts), len(known)), dtype=np.float32)
    codes = np.fromiter((-2 if text is None else places.get(text, -1) for text in texts), np.int64, len(texts))
    rows = np.flatnonzero(codes >= 0)
    values[rows, codes[rows]] = 1
    values[codes == -2] = np.nan
    return values, sorted({text for text, code in zip(texts, codes.tolist(), strict=True) if code == -1 and text})
