"""Labels of a table: one per sequence, as classes or numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from sttau.data.cells import as_name, as_number, describe_rows, is_missing
from sttau.data.dataset import Described

Target = Literal["class", "number"]


def as_labels(
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
        texts = ["" if cells is None or is_missing(cells[row]) else as_name(cells[row]) for row in rows]
        for row, other in zip(rows, texts, strict=True):
            if other != texts[0]:
                raise ValueError(
                    f"{path.name} has the {label!r} {texts[0]!r} and {other!r} in sequence {name!r} "
                    f"({describe_rows([rows[0] + 1, row + 1])}); expected the same in all its rows"
                )
        found.append((texts[0], rows[0] + 1))
    missing = [row for value, row in found if not value]
    if missing and like is None:
        raise ValueError(f"{path.name} has no {label!r} in {describe_rows(missing)}; training needs one per sequence")
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
    """Sort names, as integers if all of them are."""
    whole = all(name.lstrip("-").isdecimal() for name in names)
    return sorted(names, key=int) if whole else sorted(names)
