"""Columns of a table, from CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Cells of each column, by its name.
Columns = dict[str, list[Any]]


def read_columns(path: Path) -> Columns:
    """Read a table; the suffix of the file determines its format."""
    readers: dict[str, Callable[[Path], Columns]] = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".jsonl": _read_jsonl,
        ".parquet": _read_parquet,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path.name} must end in {', '.join(readers)} or .npz, which determines the format")
    try:
        return reader(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not text in UTF-8 ({error}); save it in that encoding") from error


def _read_csv(path: Path) -> Columns:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        header = [name.strip() for name in next(rows, [])]
        twice = sorted({name for name in header if header.count(name) > 1})
        if twice:
            raise ValueError(f"{path.name} has more than one column {twice[0]!r}; give each a name of its own")
        columns: Columns = {name: [] for name in header}
        try:
            for number, row in enumerate((row for row in rows if row), 1):
                if len(row) != len(header):
                    raise ValueError(
                        f"{path.name} has {len(row)} cells in row {number} (line {rows.line_num}), "
                        f"but {len(header)} columns"
                    )
                for name, cell in zip(header, row, strict=True):
                    columns[name].append(cell)
        except csv.Error as error:
            raise ValueError(f"{path.name} cannot be read at line {rows.line_num}: {error}") from error
    return columns


def _read_jsonl(path: Path) -> Columns:
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path.name} has no valid JSON in row {len(rows) + 1}: {error}") from error
            if not isinstance(row, dict):
                raise ValueError(
                    f"{path.name} has a {type(row).__name__} in row {len(rows) + 1}; expected an object, "
                    "with a value for each column"
                )
            rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _read_parquet(path: Path) -> Columns:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError('Parquet files are read with pyarrow: pip install "sttau[parquet]"') from error
    try:
        columns: Columns = pyarrow.parquet.read_table(path).to_pydict()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path.name} cannot be read as Parquet: {error}") from error
    return columns
