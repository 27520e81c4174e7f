"""Targets of series: the task, the classes and the values, from a column of a table."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sttau.data.cells import as_names, as_number, as_numbers, check_number, describe_rows, is_missing
from sttau.data.columns import Table
from sttau.data.dataset import Described
from sttau.data.features import warn_coarse
from sttau.data.schema import Schema, Task, list_names
from sttau.errors import DataError

Rows = npt.NDArray[np.int64]

_MOST_CLASSES = 20  # distinct integers; more are values
_WHOLE = re.compile(r"([+-]?\d+)\.0*")
_NEGATIVE_FIRST = (("reject", "accept"), ("-", "+"))  # else the alphabet would make acceptance class 0


def find_task(cells: Sequence[Any], comma: bool = False) -> tuple[Task, str]:
    """Return the task that the targets suggest, and why.

    Args:
        cells: Target of each series.
        comma: Whether the decimal separator is a comma.

    Example:
        >>> find_task(["ill", "well"]), find_task([1, 2, 2])
        (('classification', 'targets are text'), ('classification', 'targets are integers, 2 distinct'))
        >>> find_task(["1.5", "2"])
        ('regression', 'targets are floats')
    """
    known = [cell for cell in cells if not is_missing(cell)]
    if any(isinstance(cell, (bool, np.bool_)) for cell in known):
        return "classification", "targets are booleans"
    numbers = as_numbers(known, comma)
    if numbers is None:
        return "classification", "targets are text"
    with np.errstate(invalid="ignore"):
        if not (numbers % 1 == 0).all():
            return "regression", "targets are floats"
    distinct = len(np.unique(numbers))
    if distinct <= _MOST_CLASSES:
        return "classification", f"targets are integers, {distinct} distinct"
    return "regression", f"targets are integers, {distinct:,} distinct, more than {_MOST_CLASSES}"


def make_targets(
    table: Table, schema: Schema, ids: Sequence[str], first: Rows, series: Rows | None, like: Described | None
) -> tuple[Tensor, tuple[str, ...], Task, str]:
    """Return the target of each series, the names of the classes, the task and the rule by which it was chosen.

    Args:
        table: Table with the column of targets.
        schema: Roles of the columns.
        ids: Name of each series.
        first: (series,) first row of each series.
        series: (rows,) series of each row, where a series has several.
        like: Training data or a model.
    """
    name, where = schema.target, table.name
    column = table.columns.get(name) if name is not None else None
    if column is None:
        if like is None:
            raise DataError(
                f"{where} has no column {(name or 'label')!r}, which training needs; it has "
                f"{table.listing}. Name the column of targets with target=."
            )
        task, _ = _known_task(schema, like)
        values = torch.full((len(ids),), -1) if task == "classification" else torch.full((len(ids),), math.nan)
        return values, tuple(like.class_names), task, ""
    assert name is not None
    known = like.class_names if like is not None else ()
    if series is not None:
        _check_constant(table, name, as_names(column, known), ids, first, series)
    cells = [column[row] for row in first.tolist()]
    if like is not None:
        task, rule = _known_task(schema, like)
    else:
        task, rule = (schema.task, "") if schema.task else find_task(cells, table.comma)
    rows = [table.row(row) for row in first.tolist()]
    gaps = map(is_missing, cells) if task == "regression" else (text is None for text in as_names(cells, known))
    missing = [row for row, gap in zip(rows, gaps, strict=True) if gap]
    if missing and like is None:
        raise DataError(
            f"{where} has no {name!r} in {describe_rows(missing)}; training needs one for each series. "
            "Leave those series out, or read them with like= for prediction."
        )
    if task == "regression":
        return make_values(where, name, cells, rows, like, table.comma), (), task, rule
    labels, names = make_classes(where, name, cells, rows, like, strings=schema.layout == "strings")
    return labels, names, task, rule


def _known_task(schema: Schema, like: Described) -> tuple[Task, str]:
    return ("classification" if like.class_names else schema.task or "regression"), ""


def _check_constant(
    table: Table, name: str, names: Sequence[str | None], ids: Sequence[str], first: Rows, series: Rows
) -> None:
    """Raise unless all rows of a series have the same target."""
    numbers: dict[str, int] = {}
    texts = [text or "" for text in names]
    codes = np.fromiter((numbers.setdefault(text, len(numbers)) for text in texts), np.int64, len(texts))
    other = np.flatnonzero(codes != codes[first[series]])
    if len(other):
        row = int(other[0])
        one = int(first[series[row]])
        raise DataError(
            f"{table.name} has the {name!r} {texts[one]!r} and {texts[row]!r} in series {ids[series[row]]!r} "
            f"({describe_rows([table.row(one), table.row(row)])}); expected the same in all its rows"
        )


def make_values(
    where: str, name: str, cells: Sequence[Any], rows: Sequence[int], like: Described | None, comma: bool = False
) -> Tensor:
    """Return cells as float32, NaN where one is missing; an error that names the row of any other.

    Args:
        where: Name of the file.
        name: Name of the column.
        cells: Target of each series.
        rows: Row of each, for messages.
        like: Training data or a model; without one, a loss of precision is a warning.
        comma: Whether the decimal separator is a comma.
    """
    values = np.empty(len(cells))
    for place, (cell, row) in enumerate(zip(cells, rows, strict=True)):
        value = as_number(cell, comma)
        if value is None:
            raise DataError(
                f"{where} has {cell!r} as {name!r} in row {row}; expected a number for regression. "
                'Correct it, or pass task="classification".'
            )
        values[place] = check_number(where, name, value, row)
    if like is None:
        warn_coarse(where, f"column {name!r}", [values])
    return torch.from_numpy(values.astype(np.float32))


def make_classes(
    where: str, name: str, cells: Sequence[Any], rows: Sequence[int], like: Described | None, strings: bool = False
) -> tuple[Tensor, tuple[str, ...]]:
    """Return the class of each cell, -1 where it is missing, and the names of the classes.

    Args:
        where: Name of the file.
        name: Name of the column.
        cells: Label of each series.
        rows: Row of each, for messages.
        like: Training data or a model, whose classes are used.
        strings: Whether these are labels of strings of a formal language: then acceptance is class 1.
    """
    texts = _class_names(cells, like)
    if like is None:
        names = tuple(_sorted({text for text in texts if text}))
        if strings and tuple(sorted(names)) in {tuple(sorted(pair)) for pair in _NEGATIVE_FIRST}:
            names = next(pair for pair in _NEGATIVE_FIRST if set(pair) == set(names))
    else:
        names = tuple(like.class_names)
    if like is None and len(names) < 2:
        raise DataError(
            f"{where} has a single class, {', '.join(names)!r}, as {name!r}; a classifier needs at least two"
        )
    classes = {text: number for number, text in enumerate(names)} | {"": -1}
    unknown = next(((text, row) for text, row in zip(texts, rows, strict=True) if text not in classes), None)
    if unknown:
        raise DataError(
            f"{where} has the {name!r} {unknown[0]!r} in row {unknown[1]}, which training did not: "
            f"{list_names(names)}. Correct it, or leave the cell empty."
        )
    return torch.tensor([classes[text] for text in texts]), names


def _class_names(cells: Sequence[Any], like: Described | None) -> list[str]:
    """Return labels as text, the same for 1 and 1.0 where all are numbers."""
    texts = [text or "" for text in as_names(cells, () if like is None else like.class_names)]
    if any(_WHOLE.fullmatch(text) for text in set(texts)) and as_numbers(list(set(texts))) is not None:
        return [_WHOLE.sub(r"\1", text) if _WHOLE.fullmatch(text) else text for text in texts]
    return texts


def _sorted(names: set[str]) -> list[str]:
    """Sort names as integers if all of them are integers."""
    whole = all(re.fullmatch(r"[+-]?[0-9]{1,18}", name) for name in names)
    return sorted(names, key=int) if whole else sorted(names)
