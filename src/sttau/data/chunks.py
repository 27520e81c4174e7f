"""Files larger than memory, read some series at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from sttau.data.assembly import choose_columns, make_dataset
from sttau.data.cells import plain
from sttau.data.columns import Table, join, read_blocks
from sttau.data.dataset import Described, SequenceDataset
from sttau.data.folder import size_of, table_files
from sttau.data.layout import find_layout
from sttau.data.request import Request
from sttau.data.schema import Missing, Schema, check_choice, find_roles
from sttau.errors import DataError

_PADDING = 4  # steps in memory per step of the file


def read_chunks(
    path: str | os.PathLike[str],
    *,
    like: Described,
    rows: int | None = None,
    id: str | None = None,
    time: str | None = None,
    target: str | None = None,
    text: str | None = None,
    missing: Missing | None = None,
) -> Iterator[SequenceDataset]:
    r"""Read a file for prediction as data sets of some of its series, in their order, with bounded memory.

    The rows of a series of a long table must follow one another; an id that comes up again later is an error. Memory
    holds one chunk, the names of all series so far, and the whole of the longest series.

    Args:
        path: Path of a ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet`` or ``.txt`` file, or of a folder of them.
        like: Training data, or a model with its metadata, by which the columns are read.
        rows: Rows of the file per chunk; as many as have about half a million cells by default.
        id: Name of the column that identifies the series; as in ``like`` by default.
        time: Name of the column that orders the rows of a series; as in ``like`` by default.
        target: Name of the column of targets; as in ``like`` by default.
        text: Name of the column of texts; as in ``like`` by default.
        missing: ``error`` or ``keep``, as for :func:`sttau.data.read`; as in ``like`` by default.

    Example:
        >>> import tempfile
        >>> from sttau.data import read
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "beats.csv"
        ...     _ = path.write_text("id,mv,label\na,1,u\na,2,u\nb,3,v\nb,4,v\nc,5,u\n")
        ...     train = read(path)
        ...     [chunk.ids for chunk in read_chunks(path, like=train, rows=3)]
        [('a',), ('b',), ('c',)]
    """
    check_choice("missing", missing, Missing)
    if rows is not None and rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    path = Path(path)
    table_files(path)
    if path.suffix.lower() == ".npz":
        raise DataError(f"{path.name} cannot be read in chunks; read it with sttau.data.read, or save it as .parquet")
    request = Request(Schema(None, id, time, target, text, missing=missing), like)
    return _read(path, request, rows)


def _read(path: Path, request: Request, rows: int | None) -> Iterator[SequenceDataset]:
    files = table_files(path)
    strings = files[0].suffix.lower() == ".txt"
    limit = request.limit(size_of(files))
    blocks = read_blocks(path, choose_columns(path.name, request), rows)
    empty = True
    for table in _whole_series(blocks, request, strings):
        empty = False
        data = make_dataset(table, request, limit, strings)
        last = table.first + table.rows
        yield replace(data, name=path.stem, provenance=f"{path.name}, rows {table.first + 1:,} to {last:,}")
    if empty:
        raise DataError(f"{path.name} holds no rows; expected a header and at least one row")


def _whole_series(blocks: Iterator[Table], request: Request, strings: bool) -> Iterator[Table]:
    """Yield the same rows in tables that end where a series does."""
    rest: list[Table] = []  # rows of a series that has not ended
    seen: set[str] = set()
    for block in blocks:
        schema = find_roles(block.name, list(block.columns), request.roles, request.like, block.header)
        layout = find_layout(block, schema, request.like, None, strings)[0]
        if layout != "long" or schema.id is None or schema.id not in block.columns:
            yield block  # one row per series, or an error that is said when it is read
            continue
        starts = _starts(block, schema.id)
        before = plain(rest[-1].columns[schema.id][-1]) if rest else None
        same = before is not None and plain(block.columns[schema.id][0]) == before
        if same and len(starts) == 1:
            rest.append(block)
            continue
        end = int(starts[-1])
        head = [*rest, block.cut(0, end)] if end else rest
        rest = [block.cut(end, block.rows)]
        if head:
            yield from _even(join(block.name, head), schema.id, seen)
    if rest:
        yield from _even(join(rest[0].name, rest), schema.id or "", seen)


def _starts(table: Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the rows where a new series begins."""
    ids = list(map(plain, table.columns[name]))
    changed = (one != two for one, two in pairwise(ids))
    return np.concatenate([[0], np.flatnonzero(np.fromiter(changed, bool, len(ids) - 1)) + 1]).astype(np.int64)


def _even(table: Table, name: str, seen: set[str]) -> Iterator[Table]:
    """Check that no series comes up again, and cut a table where padding would take much more than its rows."""
    starts = _starts(table, name)
    ids = [plain(table.columns[name][row]) for row in starts.tolist()]
    for id_, row in zip(ids, starts.tolist(), strict=True):
        if id_ in seen:
            raise DataError(
                f"{table.name} has rows of series {id_!r} in several places, again in row {table.row(row):,}; "
                f"a file that is read in chunks must have the rows of a series together. Sort it by {name!r}, or read "
                "it whole with sttau.data.read."
            )
        seen.add(id_)
    lengths = np.diff([*starts.tolist(), table.rows])
    for first, last in _cuts(lengths.tolist(), _PADDING * table.rows):
        stop = table.rows if last == len(starts) else int(starts[last])
        yield table.cut(int(starts[first]), stop)


def _cuts(lengths: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of series that, padded to the longest of each, have at most ``most`` steps."""
    first, longest = 0, 0
    for number, length in enumerate(lengths):
        if max(longest, length) * (number + 1 - first) > most and number > first:
            yield first, number
            first, longest = number, 0
        longest = max(longest, length)
    yield first, len(lengths)
