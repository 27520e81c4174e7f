"""Cells of people's files: missing values, numbers, names and labels."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from sttau.data.dataset import Described

Target = Literal["class", "number"]

_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
_SHOWN = 5


def as_number(path: Path, cell: Any, name: str, row: int) -> float:
    """Return a cell as a finite float, or raise an error that names file, column and row."""
    try:
        number = float(cell)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path.name} has {cell!r} as {name!r} in row {row}; expected a number. "
            "If that column is not a feature, name the features with features=[…]."
        ) from error
    if not math.isfinite(number):
        raise ValueError(f"{path.name} has {cell!r} as {name!r} in row {row}; expected a finite number")
    return number


def make_labels(
    path: Path,
    label: str,
    cells: list[Any] | None,
    ids: tuple[str, ...],
    groups: list[list[int]],
    like: Described | None,
    target: Target,
) -> tuple[Tensor, tuple[str, ...]]:
    """Return one label per sequence, and the names of the classes."""
    found: list[tuple[str, int]] = []
    for name, rows in zip(ids, groups, strict=True):
        texts = ["" if cells is None or is_missing(cells[row]) else plain(cells[row]) for row in rows]
        for row, other in zip(rows, texts, strict=True):
            if other != texts[0]:
                raise ValueError(
                    f"{path.name} has the {label!r} {texts[0]!r} and {other!r} in sequence {name!r} "
                    f"({describe_rows([rows[0] + 1, row + 1])}); expected the same in all its rows"
                )
        found.append((texts[0], rows[0] + 1))
    missing = [row for value, row in found if not value]
    if missing and like is None:
        raise ValueError(
            f"{path.name} has no {label!r} in {describe_rows(missing)}; training needs one for each sequence"
        )
    if target == "number":
        numbers = [as_number(path, value, label, row) if value else math.nan for value, row in found]
        return torch.tensor(numbers, dtype=torch.float32), ()
    names = tuple(_sorted({value for value, _ in found})) if like is None else like.class_names
    if like is None and len(names) < 2:
        raise ValueError(f"{path.name} has a single class, {names[0]!r}; a classifier needs at least two")
    classes = {name: number for number, name in enumerate(names)} | {"": -1}
    for value, row in found:
        if value not in classes:
            raise ValueError(
                f"{path.name} has the {label!r} {value!r} in row {row}, which training did not: {', '.join(names)}"
            )
    return torch.tensor([classes[value] for value, _ in found]), names


def _sorted(names: set[str]) -> list[str]:
    """Sort names as integers if all of them are integers."""
    whole = all(name.lstrip("-").isdecimal() for name in names)
    return sorted(names, key=int) if whole else sorted(names)


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty, NaN or a common word for a missing value."""
    if isinstance(cell, str):
        return cell.strip().lower() in _MISSING
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def plain(cell: Any) -> str:
    """Return a name as text, the same whether a file holds 1, 1.0 or "1"."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return str(cell).strip()


def describe_rows(rows: list[int]) -> str:
    """Return row numbers as text, the first few of many."""
    shown = ", ".join(map(str, rows[:_SHOWN])) + (f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else "")
    return f"row{'s' * (len(rows) > 1)} {shown}"


def provenance(path: Path, size: str) -> str:
    """Return name, size and checksum of a file."""
    return f"{path.name}, {size}, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}"
