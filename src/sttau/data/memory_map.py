"""Tables larger than memory: inputs in a file that is mapped, so that only what is used is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sttau.data.assembly import Parts, assemble, choose_columns, row_ids
from sttau.data.cells import as_names, as_number, as_times, holds_dates, is_missing, plain
from sttau.data.columns import Column, Table, read_blocks
from sttau.data.dataset import SequenceDataset
from sttau.data.features import check_categories, choose_features, make_features
from sttau.data.folder import describe_files, table_files
from sttau.data.layout import find_layout
from sttau.data.long_table import find_series
from sttau.data.request import Request
from sttau.data.schema import Schema, find_roles
from sttau.data.wide_table import find_steps, read_steps, warn_coarse_steps, wide_schema
from sttau.errors import DataError

_MOST_TEXTS = 1000  # per column; more are no categories


def read_mapped(path: Path, request: Request, folder: Path) -> SequenceDataset:
    """Read a table in two passes: what identifies its rows, then its features, straight to a file in ``folder``.

    Memory holds the roles of all rows (a few tens of bytes each) and one block of the table.
    """
    first = next(_blocks(path, request), None)
    if first is None:
        raise DataError(f"{path.name} holds no rows; expected a header and at least one row")
    schema = find_roles(path.name, list(first.columns), request.roles, request.like, first.header)
    layout, remarks = find_layout(first, schema, request.like, request.features)
    if layout not in ("long", "wide"):
        raise DataError(f"{path.name} holds texts, which are not memory-mapped; read it without memory_map=")
    schema = replace(schema, layout=layout, missing=schema.missing or "error")
    make = _map_long if layout == "long" else _map_wide
    folder.mkdir(parents=True, exist_ok=True)
    table, parts = make(path, first, schema, request, folder / f"{path.name}.inputs.npy")
    data = assemble(table, parts, request, (*remarks, *table.remarks))
    return replace(data, name=path.stem, provenance=describe_files(path, table_files(path), f"{table.rows:,} rows"))


def _blocks(path: Path, request: Request) -> Iterator[Table]:
    return read_blocks(path, choose_columns(path.name, request))


def _map_long(path: Path, first: Table, schema: Schema, request: Request, file: Path) -> tuple[Table, Parts]:
    columns, remarks = choose_features(first, schema, request.like, request.features)
    table, texts = _read_roles(path, request, schema, columns)
    found = {name: tuple(sorted(values)) for name, values in texts.items() if name not in schema.categories}
    place = find_series(table, schema)
    fixed = replace(schema, categories={**schema.categories, **found})
    names: tuple[str, ...] = ()
    coarse: dict[str, None] = {}  # each block may have the same warnings
    inputs: npt.NDArray[np.float32] | None = None
    for block in _blocks(path, request):
        features = make_features(block, columns, fixed, request.like, schema.missing or "error")
        coarse.update(dict.fromkeys(features.remarks if request.like is None else ()))
        if inputs is None:
            names = features.names
            inputs = _create(file, (len(place.ids), int(place.lengths.max()), len(names)))
        rows = slice(block.first, block.first + block.rows)
        inputs[place.series[rows], place.steps[rows]] = features.values
    return table, Parts(
        schema=replace(
            fixed, categories={name: fixed.categories[name] for name in columns if name in fixed.categories}
        ),
        inputs=_finish(file, inputs),
        lengths=torch.from_numpy(place.lengths),
        ids=place.ids,
        first=place.first,
        series=place.series,
        names=names,
        remarks=(*remarks, *coarse),
    )


def _map_wide(path: Path, first: Table, schema: Schema, request: Request, file: Path) -> tuple[Table, Parts]:
    steps, remarks = find_steps(first, schema, request.like, request.features)
    table, _ = _read_roles(path, request, schema, ())
    inputs = _create(file, (table.rows, len(steps.columns[0]), len(steps.names)))
    lengths = np.empty(table.rows, dtype=np.int64)
    coarse: dict[str, None] = {}  # each block may have the same warnings
    for block in _blocks(path, request):
        rows = slice(block.first, block.first + block.rows)
        values, lengths[rows] = read_steps(block, steps, schema.missing or "error")
        inputs[rows, : values.shape[1]] = values
        coarse.update(dict.fromkeys(warn_coarse_steps(block, steps) if request.like is None else ()))
    return table, Parts(
        schema=wide_schema(schema, steps, request.like),
        inputs=_finish(file, inputs),
        lengths=torch.from_numpy(lengths),
        ids=row_ids(table, schema),
        first=np.arange(table.rows),
        names=steps.names,
        remarks=(*remarks, *coarse),
    )


def _read_roles(
    path: Path, request: Request, schema: Schema, features: Sequence[str]
) -> tuple[Table, dict[str, set[str]]]:
    """Return the columns with a role, equal cells as one object, and the texts of features that are not numbers."""
    parts: dict[str, list[Any]] = {name: [] for name in schema.roles.values()}
    once: dict[str, str] = {}
    found = {name: _Texts() for name in features if name not in schema.categories}
    rows, last = 0, None
    for last in _blocks(path, request):
        if schema.time not in last.columns:
            parts.pop(schema.time or "", None)  # find_series tells whether the times are needed
        rows += last.rows
        for name, values in parts.items():
            cells = last.columns.get(name, [None] * last.rows)
            if name == schema.time:
                values.append(as_times(path.name, name, cells, last.first))
            else:
                values.extend(once.setdefault(cell, cell) if isinstance(cell, str) else cell for cell in cells)
        for name, texts in found.items():
            texts.add(last, name)
    assert last is not None
    columns: dict[str, Column] = {
        name: np.concatenate(values) if name == schema.time else values for name, values in parts.items()
    }
    categories = {name: texts.values for name, texts in found.items() if texts.are_categories(path.name, name)}
    return replace(last, columns=columns, rows=rows, first=0), categories


class _Texts:
    """Texts of a feature column, counted over all blocks."""

    def __init__(self) -> None:
        self.values: set[str] = set()
        self.doubtful: set[str] = set()  # of cells that are missing values if the others are numbers
        self.numbers = self.others = self.number_blocks = 0

    def add(self, table: Table, name: str) -> None:
        """Count the cells of a block; dates are numbers."""
        column = table.columns.get(name, [])
        if not isinstance(column, list) or holds_dates(column):
            self.number_blocks += 1
            self.numbers += len(column)
            return
        for cell in column:
            if is_missing(cell):
                self.doubtful.add(plain(cell))
                continue
            number = as_number(cell, table.comma) is not None
            self.numbers, self.others = self.numbers + number, self.others + (not number)
            if len(self.values) < _MOST_TEXTS:
                self.values.add(plain(cell))

    def are_categories(self, where: str, name: str) -> bool:
        """Whether most cells are texts; else those that are texts are faults, which reading names by their row."""
        if self.others == 0 or self.numbers >= self.others:
            return False
        if self.number_blocks:
            raise DataError(
                f"{where} has numbers in some rows of column {name!r} and texts in others; a memory map needs one "
                "kind. Leave the column out with features=[…], or read the file without memory_map=."
            )
        self.values |= {text for text in as_names(sorted(self.doubtful), self.doubtful) if text}
        check_categories(where, name, sorted(self.values))
        return True


def _create(file: Path, shape: tuple[int, int, int]) -> npt.NDArray[np.float32]:
    return np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)


def _finish(file: Path, inputs: Any) -> torch.Tensor:
    """Write what is left, and return the file as a tensor; changes of the tensor do not change the file."""
    inputs.flush()
    return torch.from_numpy(np.load(file, mmap_mode="c"))
