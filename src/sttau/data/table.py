"""Tables of series or texts in files and data frames (docs/data.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sttau.data.arrays import read_arrays
from sttau.data.assembly import choose_columns, make_dataset
from sttau.data.columns import read_table
from sttau.data.dataset import Described, SequenceDataset
from sttau.data.folder import describe_files, size_of, table_files
from sttau.data.frames import as_table
from sttau.data.memory_map import read_mapped
from sttau.data.request import Request
from sttau.data.schema import Layout, Missing, Schema, Task, check_choice


def read(
    source: Any,
    *,
    like: Described | None = None,
    target: str | None = None,
    task: Task | None = None,
    id: str | None = None,
    time: str | None = None,
    text: str | None = None,
    group: str | None = None,
    layout: Layout | None = None,
    features: Sequence[str] | None = None,
    missing: Missing | None = None,
    vocabulary_size: int = 5000,
    split: str | None = None,
    max_bytes: int | None = None,
    memory_map: str | os.PathLike[str] | None = None,
) -> SequenceDataset:
    r"""Read series, texts or strings from a file or a data frame.

    Files are ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, ``.txt`` and ``.npz``; those of a folder, in the order of
    their names, are one table. A long table has one row per step, a wide one has one row per series, and others have
    one text or string per row. What was understood is in ``schema``, ``remarks`` and ``summary()`` of the result.
    Rows are counted from 1, without the header.

    Args:
        source: Path of the file, whose ending names the format, or of a folder; or a data frame of pandas, polars or
            PyArrow, or a ``datasets.Dataset``.
        like: Training data, or a model with its metadata. Columns, classes, categories and vocabulary are taken from
            it, and targets may be missing: they become -1, or NaN for regression.
        target: Name of the column of targets; ``label`` by default.
        task: ``classification`` or ``regression``; by default, text, booleans and up to 20 distinct integers are
            classes, other numbers are values.
        id: Name of the column that identifies the series; ``sequence``, ``series``, ``id`` or ``series_id`` by default.
        time: Name of the column that orders the rows of a series, as numbers or dates; ``time``, ``t``, ``date``,
            ``datetime`` or ``timestamp`` by default.
        text: Name of the column of texts or strings; ``text`` by default.
        group: Name of the column of groups, such as patients, that :func:`sttau.data.split` can keep together.
        layout: ``long``, ``wide``, ``text`` or ``strings``; found from the columns by default.
        features: Names of the feature columns, in this order, or of the steps of a wide table; all remaining columns
            by default. Dates are features, in days since 1970, only if they are named here.
        missing: ``error``, or ``keep`` for NaN where a feature is missing within a series; as in ``like``, else
            ``error``, by default.
        vocabulary_size: Number of tokens to keep of training texts.
        split: Name of the split; ``train`` without ``like`` and ``test`` with it by default.
        memory_map: Folder in which the inputs of a table are written to a file, for data larger than memory: the
            inputs are then read from there when they are used.
        max_bytes: Largest size of the arrays in memory; 1 GiB or 64 times the size of the file by default.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "beats.csv"
        ...     _ = path.write_text("series;time;mv;label\na;2;0,5;sick\na;1;0,25;sick\nb;1;0;well\n")
        ...     data = read(path)
        >>> data.inputs[:, :, 0].tolist(), data.lengths.tolist(), data.labels.tolist(), data.class_names
        ([[0.25, 0.5], [0.0, 0.0]], [2, 1], [0, 1], ('sick', 'well'))
        >>> print(data.summary())
        beats, train: 2 series of 1 to 2 steps (median 1.5), 3 rows
          layout: long; id: series; time: time
          features: mv 0 to 0.5
          target: label, 2 classes: sick 1, well 1
          separator: semicolon, decimal comma
          classification: targets are text
    """
    for name, value, kind in (("task", task, Task), ("layout", layout, Layout), ("missing", missing, Missing)):
        check_choice(name, value, kind)
    roles = Schema(layout, id, time, target, text, group, task=task, missing=missing)
    request = Request(roles, like, features, vocabulary_size, split, max_bytes)
    if not isinstance(source, (str, os.PathLike)):
        table = as_table(source, choose_columns("frame", request))
        return make_dataset(table, request, request.limit(8 * table.rows * len(table.columns)))
    path = Path(source)
    files = table_files(path)
    if path.suffix.lower() == ".npz":
        return read_arrays(path, request)
    if memory_map is not None:
        return read_mapped(path, request, Path(memory_map))
    limit = request.limit(size_of(files))
    table = read_table(
        path,
        choose_columns(path.name, request),
        lambda size: request.check_size(path.name, size, limit, "its columns"),
    )
    data = make_dataset(table, request, limit, strings=files[0].suffix.lower() == ".txt")
    return replace(data, name=path.stem, provenance=describe_files(path, files, f"{table.rows:,} rows"))
