"""Tables of series or texts in files and data frames (docs/data.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sttau.data.arrays import read_arrays
from sttau.data.cells import describe_file, plain
from sttau.data.columns import Choose, Table, read_table
from sttau.data.dataset import Described, SequenceDataset
from sttau.data.features import choose_features, feature_columns, make_features
from sttau.data.frames import as_table
from sttau.data.layout import find_layout
from sttau.data.long_table import find_series, pad, warn_counters
from sttau.data.request import Request
from sttau.data.schema import Layout, Missing, Schema, Task, check_choice, find_roles
from sttau.data.targets import make_targets
from sttau.data.texts import read_strings, read_texts
from sttau.data.wide_table import find_steps, read_steps
from sttau.errors import DataError


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
) -> SequenceDataset:
    r"""Read series, texts or strings from a file or a data frame.

    Files are ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, ``.txt`` and ``.npz``. A long table has one row per step, a
    wide one has one row per series, and others have one text or string per row. What was understood is in ``schema``,
    ``remarks`` and ``summary()`` of the result. Rows are counted from 1, without the header.

    Args:
        source: Path of the file, whose ending names the format; or a data frame of pandas, polars or PyArrow, or
            a ``datasets.Dataset``.
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
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    if path.suffix.lower() == ".npz":
        return read_arrays(path, request)
    table = read_table(path, choose_columns(path.name, request))
    limit = request.limit(path.stat().st_size)
    data = make_dataset(table, request, limit, strings=path.suffix.lower() == ".txt")
    return replace(data, name=path.stem, provenance=describe_file(path, f"{table.rows:,} rows"))


def choose_columns(where: str, request: Request) -> Choose:
    """Return the function that chooses the columns to read: those with a role, and those of features."""

    def choose(names: Sequence[str]) -> Mapping[str, bool]:
        all_names = list(dict.fromkeys([*names, *request.roles.roles.values()]))  # rows of JSON may lack some
        schema = find_roles(where, all_names, request.roles, request.like)
        kept = {*schema.roles.values(), *schema.categories}
        if schema.layout in ("text", "strings") or (schema.layout is None and schema.text is not None):
            wanted = kept
        elif request.features is not None:
            wanted = kept | set(request.features)
        elif request.like is not None and schema.layout == "long":
            wanted = kept | set(feature_columns(request.like.feature_names, schema.categories))
        else:
            wanted = set(names)
        return {name: name in kept for name in names if name in wanted}

    return choose


def make_dataset(table: Table, request: Request, limit: int, strings: bool = False) -> SequenceDataset:
    """Return the data set of a table.

    Args:
        table: Columns of a file or a data frame.
        request: What the caller asked for.
        limit: Largest size of the inputs in bytes.
        strings: Whether one string per line was read, not a table.
    """
    like = request.like
    if table.rows == 0:
        raise DataError(f"{table.name} holds no rows; expected a header and at least one row")
    schema = find_roles(table.name, list(table.columns), request.roles, like)
    layout, remarks = find_layout(table, schema, like, request.features, strings)
    schema = replace(schema, layout=layout, missing=schema.missing or "error")
    make = {"long": _from_long, "wide": _from_wide}.get(layout, _from_texts)
    parts = make(table, schema, request, limit)
    labels, class_names, task, rule = make_targets(table, parts.schema, parts.ids, parts.first, parts.series, like)
    groups = table.columns.get(schema.group) if schema.group else None
    return SequenceDataset(
        name=table.name,
        split=request.split or ("train" if like is None else "test"),
        inputs=parts.inputs,
        lengths=parts.lengths,
        labels=labels,
        class_names=class_names,
        vocabulary=parts.vocabulary,
        feature_names=parts.names,
        ids=parts.ids,
        provenance=f"{table.name}, {table.rows:,} rows",
        schema=replace(parts.schema, task=task),
        groups=None if groups is None else tuple(plain(groups[row]) for row in parts.first.tolist()),
        remarks=(*remarks, *table.remarks, *([f"{task}: {rule}"] if rule else []), *parts.remarks),
    )


@dataclass(frozen=True)
class _Parts:
    """What a layout makes of a table."""

    schema: Schema
    inputs: Tensor
    lengths: Tensor
    ids: tuple[str, ...]
    first: Any  # (series,) row of the first step
    series: Any = None  # (rows,) series of each row
    names: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] | None = None
    remarks: tuple[str, ...] = ()


def _from_long(table: Table, schema: Schema, request: Request, limit: int) -> _Parts:
    place = find_series(table, schema)
    columns, remarks = choose_features(table, schema, request.like, request.features)
    features = make_features(table, columns, schema, request.like, schema.missing or "error")
    shape = (len(place.ids), int(place.lengths.max()), len(features.names))
    request.check_size(table.name, 4 * shape[0] * shape[1] * shape[2], limit, f"series padded to {shape[1]:,} steps")
    inputs = np.zeros(shape, dtype=np.float32)
    pad(features.values, place, inputs)
    counters = warn_counters(table.name, features.names, features.values, place) if request.like is None else []
    return _Parts(
        schema=replace(schema, categories=features.categories),
        inputs=torch.from_numpy(inputs),
        lengths=torch.from_numpy(place.lengths),
        ids=place.ids,
        first=place.first,
        series=place.series,
        names=features.names,
        remarks=(*remarks, *features.remarks, *counters),
    )


def _from_wide(table: Table, schema: Schema, request: Request, limit: int) -> _Parts:
    steps, remarks = find_steps(table, schema, request.like, request.features)
    request.check_size(table.name, 4 * table.rows * sum(map(len, steps.columns)), limit, "steps of all series")
    values, lengths = read_steps(table, steps, schema.missing or "error")
    return _Parts(
        schema=replace(schema, time=None, steps=() if steps.numbered else steps.columns[0]),
        inputs=torch.from_numpy(values),
        lengths=torch.from_numpy(lengths),
        ids=_row_ids(table, schema),
        first=np.arange(table.rows),
        names=steps.names,
        remarks=remarks,
    )


def _from_texts(table: Table, schema: Schema, request: Request, limit: int) -> _Parts:
    if schema.text is None:
        raise DataError(f"{table.name} has no column of texts; name it with text=")
    if schema.layout == "strings":
        inputs, lengths, vocabulary = read_strings(table, schema.text, request.like)
    else:
        inputs, lengths, vocabulary = read_texts(table, schema.text, request.like, request.vocabulary_size)
    return _Parts(
        schema=replace(schema, time=None),
        inputs=inputs,
        lengths=lengths,
        ids=_row_ids(table, schema),
        first=np.arange(table.rows),
        vocabulary=vocabulary,
    )


def _row_ids(table: Table, schema: Schema) -> tuple[str, ...]:
    """Return the names of series that have one row each; their numbers where they have no names."""
    if schema.id is None or schema.id not in table.columns:
        return tuple(str(table.row(row)) for row in range(table.rows))
    return tuple(map(plain, table.columns[schema.id]))
