"""Files of tables as columns: CSV, TSV, JSON lines, Parquet, and text with one string per line."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from sttau.data.cells import Numbers, as_numbers
from sttau.data.dialect import find_dialect
from sttau.data.folder import table_files
from sttau.data.schema import list_names
from sttau.errors import DataError

#: Floats, NaN where they are missing, if all cells are numbers; else the cells as they are.
Column = Numbers | list[Any]
#: From the names of the columns to those that are read, and whether their cells are kept as they are.
Choose = Callable[[Sequence[str]], Mapping[str, bool]]

_CELLS = 500_000  # per block; about 40 MB as text
_FILLED = 50  # cells of a table per cell that a row of JSON has


@dataclass(frozen=True)
class Table:
    """Columns of a file, of some of its rows, or of a data frame."""

    name: str
    columns: dict[str, Column]
    rows: int
    first: int = 0  # rows of the file before these
    comma: bool = False  # whether the decimal separator is a comma
    remarks: tuple[str, ...] = ()
    header: tuple[str, ...] = ()  # names of all columns, also of those that were not read

    @property
    def listing(self) -> str:
        """Names of the columns of the file, for messages."""
        return list_names(self.header or list(self.columns))

    def row(self, place: int) -> int:
        """Number of a row in the file, counted from 1."""
        return place + 1 + self.first

    def cut(self, start: int, stop: int) -> Table:
        """Return the rows from ``start`` up to ``stop``."""
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        return replace(self, columns=columns, rows=stop - start, first=self.first + start)


def read_table(path: Path, choose: Choose, check: Callable[[int], None]) -> Table:
    """Read a whole file or folder; a column is numbers only if all of its cells are.

    Args:
        path: Path of the file, or of a folder with the parts of the table.
        choose: Function from the names of the columns to those to read.
        check: Function that raises if that many bytes are too many.
    """
    texts: set[str] = set()

    def choose_again(names: Sequence[str]) -> Mapping[str, bool]:
        return {name: kept or name in texts for name, kept in choose(names).items()}

    while True:
        blocks, size = [], 0
        for block in read_blocks(path, choose_again):
            size += 8 * block.rows * len(block.columns)
            check(size)
            blocks.append(block)
        kinds: dict[str, set[type]] = {}
        for block in blocks:
            for name, column in block.columns.items():
                kinds.setdefault(name, set()).add(type(column))
        mixed = {name for name, found in kinds.items() if len(found) > 1}
        if not mixed - texts:
            return join(path.name, blocks)
        texts |= mixed  # again, since numbers have lost the text they were


def join(name: str, blocks: Sequence[Table]) -> Table:
    """Return blocks of a file that follow one another as one table."""
    if not blocks:
        raise DataError(f"{name} holds no rows; expected a header and at least one row")
    if len(blocks) == 1:
        return blocks[0]
    columns: dict[str, Column] = {}
    for column in dict.fromkeys(column for block in blocks for column in block.columns):
        parts = [block.columns.get(column, [None] * block.rows) for block in blocks]
        if all(isinstance(part, np.ndarray) for part in parts):
            columns[column] = np.concatenate(parts)
        else:
            columns[column] = [cell for part in parts for cell in part]
    return replace(blocks[0], columns=columns, rows=sum(block.rows for block in blocks))


def read_blocks(path: Path, choose: Choose, rows: int | None = None) -> Iterator[Table]:
    """Read a file whose ending names its format, or the files of a folder one after the other, some rows at a time.

    Args:
        path: Path of the file, or of a folder with the parts of the table.
        choose: Function from the names of the columns to those to read.
        rows: Rows per block; about half a million cells by default.
    """
    readers = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".jsonl": _read_jsonl,
        ".ndjson": _read_jsonl,
        ".parquet": _read_parquet,
        ".txt": _read_lines,
    }
    files = table_files(path)
    reader = readers.get(files[0].suffix.lower())
    if reader is None:
        raise DataError(
            f"{files[0].name} must end in .csv, .tsv, .jsonl, .parquet, .txt or .npz, which names its format; "
            "save it in one of these, or pass a data frame"
        )
    first, start = 0, None
    for file in files:
        try:
            for block in reader(file, choose, rows):
                start = start or block
                _check_alike(file, block, files[0], start)
                yield replace(block, name=path.name, first=first)
                first += block.rows
        except UnicodeDecodeError as error:
            raise DataError(f"{file.name} is not text in UTF-8 ({error}); save it in that encoding") from error


def _check_alike(file: Path, block: Table, other: Path, start: Table) -> None:
    """Raise if a file of a folder has other columns than the first one, or another decimal separator."""
    if file.suffix.lower() in (".jsonl", ".ndjson", ".txt"):  # whose rows may leave columns out
        return
    if different := sorted(set(block.header) ^ set(start.header)):
        raise DataError(
            f"{file.name} and {other.name} are parts of one table, but only one of them has column {different[0]!r}; "
            "give all files the same columns"
        )
    if block.comma != start.comma:
        raise DataError(f"{file.name} and {other.name} write decimals differently; use a point, or a comma, in both")


def _convert(cells: Sequence[Any], keep: bool, comma: bool = False) -> Column:
    numbers = None if keep else as_numbers(cells, comma)
    return list(cells) if numbers is None else numbers


# -- CSV ---------------------------------------------------------------------------------------------------------------


def _read_csv(path: Path, choose: Choose, rows: int | None) -> Iterator[Table]:
    dialect = find_dialect(path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=dialect.separator)
        try:
            header, remarks = _header(path, next(reader, []))
            wanted = choose([name for name in header if name])
            size = rows or max(1, _CELLS // max(1, len(header)))
            for cells in _cells(path, file, reader.line_num, header, dialect.separator, size):
                columns = {name: cells[place :: len(header)] for place, name in enumerate(header) if name in wanted}
                yield Table(
                    path.name,
                    {name: _convert(column, wanted[name], dialect.comma) for name, column in columns.items()},
                    len(cells) // len(header),
                    comma=dialect.comma,
                    remarks=(*dialect.remarks, *remarks),
                    header=tuple(filter(None, header)),
                )
        except csv.Error as error:
            raise DataError(
                f"{path.name} cannot be read at line {reader.line_num}: {error}. "
                "Check the quotes there; texts with more than 131,072 characters can be kept in JSON lines."
            ) from error


def _cells(
    path: Path, file: Iterator[str], line: int, header: list[str], separator: str, size: int
) -> Iterator[list[str]]:
    """Yield the cells of ``size`` rows at a time, one row after the other.

    Args:
        path: Path of the file, for messages.
        file: Its lines after the header.
        line: Number of lines before.
        header: Names of the columns.
        separator: Separator of cells.
        size: Rows at a time.
    """
    while lines := list(islice(file, size)):
        text = "".join(lines).replace("\r\n", "\n")
        if '"' in text or "\r" in text:  # for the parser, from here to the end: a quoted cell may hold line ends
            reader = csv.reader(chain(lines, file), delimiter=separator)
            while found := list(islice(_rows(path, reader, line, header), size)):
                yield [cell for row in found for cell in row]
            return
        rows = [row for row in text.split("\n") if row]  # an empty line is no row
        if any(row.count(separator) != len(header) - 1 for row in rows):
            list(_rows(path, csv.reader(lines, delimiter=separator), line, header))  # raises, and names the line
        if rows:
            yield separator.join(rows).split(separator)
        line += len(lines)


def _header(path: Path, cells: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the names of columns, and what to say about them; a row index without a name becomes ''."""
    header = [name.strip() for name in cells]
    if header and header[0] in ("", "Unnamed: 0"):
        header[0] = ""
    if "" in header[1:]:
        raise DataError(f"{path.name} has no name for column {header.index('', 1) + 1} in its header; name it")
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if twice:
        raise DataError(f"{path.name} has more than one column {twice[0]!r}; give each a name of its own")
    values = as_numbers([name for name in header if name])
    if values is not None and len(values) and not (values % 1 == 0).all():
        raise DataError(
            f"{path.name} begins with numbers ({list_names(header, 4)}), not with the names of its columns; "
            "add a header, for instance label,0,1,2,…"
        )
    ignored = ("the first column has no name and is ignored (an index of rows?)",)
    return header, ignored if header and header[0] == "" else ()


def _rows(path: Path, reader: Any, line: int, header: list[str]) -> Iterator[list[str]]:
    width = len(header)
    for row in reader:
        if len(row) == width:
            yield row
        elif row:
            raise DataError(
                f"{path.name} has {len(row)} cells in line {line + reader.line_num}, but {width} columns "
                f"({list_names(header, 5)}); cells that hold the separator need quotes"
            )


# -- JSON lines, Parquet, lines of text --------------------------------------------------------------------------------


def _read_jsonl(path: Path, choose: Choose, rows: int | None) -> Iterator[Table]:
    with path.open(encoding="utf-8-sig") as file:
        objects = _objects(path, file)
        size = rows or 20_000
        while found := list(islice(objects, size)):
            names = tuple(dict.fromkeys(name for row in found for name in row))
            if len(names) * len(found) > _FILLED * sum(map(len, found)) + _CELLS:
                raise DataError(
                    f"{path.name} has {len(names):,} different keys in {len(found):,} rows, few of them in each; "
                    "expected the same keys in all rows"
                )
            wanted = choose(names)
            columns = {
                name: _convert([row.get(name) for row in found], wanted[name]) for name in names if name in wanted
            }
            yield Table(path.name, columns, len(found), header=names)


def _objects(path: Path, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    number = 0
    for line in lines:
        if not line.strip():
            continue
        number += 1
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path.name} has no valid JSON in row {number}: {error}. Write one object per line."
            ) from error
        if not isinstance(row, dict):
            raise DataError(
                f"{path.name} has a {type(row).__name__} in row {number}; expected an object, "
                "with a value for each column"
            )
        yield row


def _read_parquet(path: Path, choose: Choose, rows: int | None) -> Iterator[Table]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError('Parquet files are read with pyarrow: pip install "sttau[parquet]"') from error
    with path.open("rb") as file:  # so that what the system refuses is told from what pyarrow does
        try:
            source = pyarrow.parquet.ParquetFile(file)
            names = source.schema_arrow.names
            wanted = choose(names)
            size = rows or max(1, _CELLS // max(1, len(names)))
            batches = source.iter_batches(size, columns=[name for name in names if name in wanted])
            while (batch := next(batches, None)) is not None:
                columns = {name: _arrow_column(batch.column(name), wanted[name]) for name in batch.schema.names}
                if batch.num_rows:
                    yield Table(path.name, columns, batch.num_rows, header=tuple(names))
        except (DataError, GeneratorExit):
            raise
        except Exception as error:  # pyarrow raises errors of many kinds for damaged files
            raise DataError(
                f"{path.name} cannot be read as Parquet: {type(error).__name__}: {str(error)[:300]}. "
                "Is it complete? Write it again."
            ) from error


def _arrow_column(column: Any, keep: bool) -> Column:
    if not keep and str(column.type) in ("float", "double", "halffloat") and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    return _convert(column.to_pylist(), keep)


def _read_lines(path: Path, choose: Choose, rows: int | None) -> Iterator[Table]:
    """Read one string per line, the empty string included, each with its label after a tab if there is one."""
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        lines = (line.removesuffix("\n").removesuffix("\r") for line in file)
        while found := list(islice(lines, rows or _CELLS)):
            parts = [line.partition("\t") for line in found]
            columns: dict[str, Column] = {"text": [text for text, _, _ in parts]}
            if any(tab for _, tab, _ in parts):
                columns["label"] = [label if tab else None for _, tab, label in parts]
            wanted = choose(list(columns))
            yield Table(path.name, {name: cells for name, cells in columns.items() if name in wanted}, len(found))
