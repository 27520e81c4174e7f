"""Wide tables: one row per series, one column per step, or per step and feature."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sttau.data.cells import as_date, as_number, as_numbers, describe_rows, is_missing
from sttau.data.columns import Table
from sttau.data.dataset import Described
from sttau.data.features import column_numbers, raise_missing, warn, warn_coarse
from sttau.data.schema import TIME_NAMES, Missing, Schema, list_names
from sttau.errors import DataError

#: Name of the feature where the names of columns are only numbers or dates.
VALUE = "value"
#: Steps by which a table without other signs is taken to be wide.
FEWEST_STEPS = 3

_SHOWN = 5
_NUMBERED = re.compile(r"(.*?)[_\-.: ]?([0-9]{1,15})")


class Steps(NamedTuple):
    """Columns of a wide table by feature and step."""

    names: tuple[str, ...]  # of the features
    columns: tuple[tuple[str, ...], ...]  # (features, steps)
    numbered: bool  # whether the order follows from the names


def order_columns(where: str, names: Sequence[str]) -> Steps:
    """Return which feature and step each column is, by its name.

    Example:
        >>> order_columns("t.csv", ["x_1", "y_1", "x_0", "y_0"]).columns
        (('x_0', 'x_1'), ('y_0', 'y_1'))
        >>> order_columns("t.csv", ["jan", "feb"])
        Steps(names=('value',), columns=(('jan', 'feb'),), numbered=False)
    """
    moments = _moments(names)
    if moments is not None:
        return Steps((VALUE,), (tuple(name for _, name in sorted(zip(moments, names, strict=True))),), True)
    found = [_NUMBERED.fullmatch(name) for name in names]
    groups: dict[str, dict[int, str]] = {}
    for name, match in zip(names, found, strict=True):
        if match:
            groups.setdefault(match[1], {})[int(match[2])] = name
    if all(len(group) == 1 for group in groups.values()):  # x1, y2, z3: numbers that count no steps
        return Steps((VALUE,), (tuple(names),), False)
    without = [name for name, match in zip(names, found, strict=True) if match is None]
    counted = [name for group in groups.values() for name in group.values()]
    if without or len(counted) < len(names):
        odd = without or [name for name in names if name not in counted]
        raise DataError(
            f"{where} has the numbered steps {list_names(counted, 3)} and the column {odd[0]!r}, which is none of "
            "them; name the columns of the steps with features=[…]"
        )
    steps = [sorted(group) for group in groups.values()]
    uneven = [name for name, numbers in zip(groups, steps, strict=True) if numbers != steps[0]]
    if uneven:
        one, two = next(iter(groups)), uneven[0]
        raise DataError(
            f"{where} has {len(groups[one])} steps of {one!r} and {len(groups[two])} of {two!r}, or other numbers; "
            "expected the same steps of each. Name the columns of the steps with features=[…]."
        )
    columns = tuple(tuple(group[number] for number in sorted(group)) for group in groups.values())
    return Steps(tuple(name or VALUE for name in groups), columns, True)


def _moments(names: Sequence[str]) -> list[float] | None:
    """Return the times that names of columns are, numbers or dates; None if one is neither."""
    numbers = as_numbers(names)
    if numbers is not None and np.isfinite(numbers).all():
        return [float(number) for number in numbers]
    try:
        return [as_date(name).timestamp() for name in names]
    except (ValueError, OverflowError):
        return None


def find_steps(
    table: Table, schema: Schema, like: Described | None, features: Sequence[str] | None
) -> tuple[Steps, tuple[str, ...]]:
    """Return the columns of the steps, and remarks on columns that are none."""
    columns = list(table.columns)
    if features is not None:
        lacking = [name for name in features if name not in columns]
        if lacking:
            raise DataError(f"{table.name} has no column {lacking[0]!r} for a step; it has {table.listing}")
        steps = order_columns(table.name, features)
        return (steps if steps.numbered else Steps((VALUE,), (tuple(features),), False)), ()
    if like is not None:
        return _steps_of(table, schema, like), ()
    remarks: list[str] = []
    names = []
    for name in columns:
        if name in schema.roles.values():
            continue
        if name.lower() in TIME_NAMES:
            remarks.append(warn(table.name, f"column {name!r} is not used: a time has no use in a wide table"))
        elif not is_step(table, name):
            remarks.append(
                warn(table.name, f"column {name!r} holds text and is not used: steps of a wide table are numbers")
            )
        else:
            names.append(name)
    if not names:
        raise DataError(f"{table.name} has no columns of numbers for the steps; it has {table.listing}")
    return order_columns(table.name, names), tuple(remarks)


def is_step(table: Table, name: str) -> bool:
    """Whether a column is numbers, or half of its cells are, so that the others are faults."""
    if not isinstance(table.columns[name], list):
        return True
    cells = [cell for cell in table.columns[name] if not is_missing(cell)]
    return 2 * sum(as_number(cell, table.comma) is not None for cell in cells) >= len(cells)


def _steps_of(table: Table, schema: Schema, like: Described) -> Steps:
    """Return the columns that are the steps of a table like that of training."""
    if schema.steps:
        lacking = [name for name in schema.steps if name not in table.columns]
        if lacking:
            raise DataError(f"{table.name} has no column {lacking[0]!r} for a step; it has {table.listing}")
        return Steps(tuple(like.feature_names), (schema.steps,), False)
    rest = [name for name in table.columns if name not in schema.roles.values()]
    wanted = set(like.feature_names)
    if wanted == {VALUE}:
        names = [name for name in rest if _moments([name]) is not None]
    else:
        matches = {name: _NUMBERED.fullmatch(name) for name in rest}
        names = [name for name, match in matches.items() if match and match[1] in wanted]
    if names:
        steps = order_columns(table.name, names)
        _check_numbering(table, steps, schema.numbering)
        if set(steps.names) == wanted:
            order = [steps.names.index(name) for name in like.feature_names]
            return steps._replace(names=tuple(like.feature_names), columns=tuple(steps.columns[n] for n in order))
    raise DataError(
        f"{table.name} has no columns for the steps of {list_names(like.feature_names)}, numbered as in training; it "
        f"has {table.listing}"
    )


def wide_schema(schema: Schema, steps: Steps, like: Described | None) -> Schema:
    """Return the schema of a wide table with its steps; their numbering is that of training."""
    numbering = _numbering(steps) if like is None else schema.numbering
    return replace(schema, time=None, steps=() if steps.numbered else steps.columns[0], numbering=numbering)


def _numbering(steps: Steps) -> tuple[int, ...]:
    """Return the first number and the distance of the next if the steps are numbered evenly, else ()."""
    numbers = _numbers(steps)
    if len(numbers) < 2 or numbers[0] == numbers[1]:
        return ()
    first, distance = numbers[0], numbers[1] - numbers[0]
    return (first, distance) if numbers == [first + distance * place for place in range(len(numbers))] else ()


def _numbers(steps: Steps) -> list[int]:
    """Return the numbers that count the steps, or [] if they are not counted, but named by dates, say."""
    columns = steps.columns[0]
    if not steps.numbered or (_moments(columns) is not None and not all(map(str.isdecimal, columns))):
        return []
    return [int(match[2]) for match in map(_NUMBERED.fullmatch, columns) if match]


def _check_numbering(table: Table, steps: Steps, numbering: Sequence[int]) -> None:
    """Raise unless the steps are those of training, up to any end, since others after a gap would be shifted.

    Numbers that did not begin at 0 or 1, such as years, may begin elsewhere.
    """
    numbers = _numbers(steps)
    if not numbering or not numbers:
        return
    first, distance = numbering if numbering[0] in (0, 1) else (numbers[0], numbering[1])
    wanted = range(first, numbers[-1] + 1, distance)
    if numbers == list(islice(wanted, len(numbers))):
        return
    columns = steps.columns[0]
    given = set(numbers)
    lacking = list(islice((number for number in wanted if number not in given), _SHOWN + 1))
    if not lacking:
        other = next(name for name, number in zip(columns, numbers, strict=True) if number not in wanted)
        raise DataError(f"{table.name} has the step {other!r}, which training had not. Leave it out")
    match = _NUMBERED.fullmatch(columns[0])
    assert match is not None
    width = len(match[2]) if match[2].startswith("0") else 0
    names = [f"{columns[0][: match.start(2)]}{number:0{width}}" for number in lacking]
    raise DataError(
        f"{table.name} lacks the steps {list_names(names[:_SHOWN])}{' …' * (len(names) > _SHOWN)} of training, so that "
        f"those after them would be shifted; it has {table.listing}. Only steps at the end may be left out; for a "
        'missing value keep the column, leave its cells empty and pass missing="keep".'
    )


def warn_coarse_steps(table: Table, steps: Steps) -> tuple[str, ...]:
    """Warn of features of a wide table of which float32 loses much, all steps together."""
    remarks: list[str] = []
    for name, columns in zip(steps.names, steps.columns, strict=True):
        numbers = (column_numbers(table, column) for column in columns)
        remarks += warn_coarse(table.name, f"the feature {name!r}", numbers)
    return tuple(remarks)


def read_steps(table: Table, steps: Steps, missing: Missing) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return (series, time, features), zero beyond each length, and lengths; empty cells at the end are no steps."""
    values = np.empty((table.rows, len(steps.columns[0]), len(steps.names)), dtype=np.float32)
    for feature, columns in enumerate(steps.columns):
        for step, name in enumerate(columns):
            values[:, step, feature] = column_numbers(table, name)
    gaps = np.isnan(values)
    known = np.logical_not(gaps.all(2))
    lengths = np.where(known.any(1), known.shape[1] - known[:, ::-1].argmax(1), 0).astype(np.int64)
    if not lengths.all():
        rows = [table.row(row) for row in np.flatnonzero(lengths == 0).tolist()]
        raise DataError(f"{table.name} has no values in {describe_rows(rows)}; leave such rows out")
    beyond = np.arange(values.shape[1]) >= lengths[:, None]
    if missing == "error" and (gaps & ~beyond[:, :, None]).any():
        found: dict[str, list[int]] = {}
        for row, step, feature in np.argwhere(gaps & ~beyond[:, :, None]).tolist():
            found.setdefault(steps.columns[feature][step], []).append(table.row(row))
        raise_missing(table.name, found)
    values[beyond] = 0
    longest = int(lengths.max())
    return np.ascontiguousarray(values[:, :longest]), lengths
