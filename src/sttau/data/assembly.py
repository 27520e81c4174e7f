"""Data sets made of tables: roles of columns, layout, features and targets put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sttau.data.cells import plain
from sttau.data.columns import Choose, Table
from sttau.data.dataset import SequenceDataset
from sttau.data.features import choose_features, feature_columns, make_features
from sttau.data.layout import find_layout
from sttau.data.long_table import find_series, pad, warn_counters
from sttau.data.request import Request
from sttau.data.schema import Schema, find_roles
from sttau.data.targets import make_targets
from sttau.data.texts import read_strings, read_texts
from sttau.data.wide_table import find_steps, read_steps, warn_coarse_steps, wide_schema
from sttau.errors import DataError


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
    schema = find_roles(table.name, list(table.columns), request.roles, like, table.header)
    layout, remarks = find_layout(table, schema, like, request.features, strings)
    schema = replace(schema, layout=layout, missing=schema.missing or "error")
    make = {"long": _from_long, "wide": _from_wide}.get(layout, _from_texts)
    parts = make(table, schema, request, limit)
    return assemble(table, parts, request, (*remarks, *table.remarks))


@dataclass(frozen=True)
class Parts:
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


def assemble(table: Table, parts: Parts, request: Request, remarks: tuple[str, ...]) -> SequenceDataset:
    """Return the data set of inputs, with the targets and groups of a table.

    Args:
        table: Table with the columns of targets and groups.
        parts: Inputs and the place of every series.
        request: What the caller asked for.
        remarks: What was said so far.
    """
    like, schema = request.like, parts.schema
    labels, class_names, task, rule = make_targets(table, schema, parts.ids, parts.first, parts.series, like)
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
        schema=replace(schema, task=task),
        groups=None if groups is None else tuple(plain(groups[row]) for row in parts.first.tolist()),
        remarks=(*remarks, *([f"{task}: {rule}"] if rule else []), *parts.remarks),
    )


def _from_long(table: Table, schema: Schema, request: Request, limit: int) -> Parts:
    place = find_series(table, schema)
    columns, remarks = choose_features(table, schema, request.like, request.features)
    features = make_features(table, columns, schema, request.like, schema.missing or "error")
    shape = (len(place.ids), int(place.lengths.max()), len(features.names))
    request.check_size(table.name, 4 * shape[0] * shape[1] * shape[2], limit, f"series padded to {shape[1]:,} steps")
    inputs = np.zeros(shape, dtype=np.float32)
    pad(features.values, place, inputs)
    counters = warn_counters(table.name, features.names, features.values, place) if request.like is None else []
    return Parts(
        schema=replace(schema, categories=features.categories),
        inputs=torch.from_numpy(inputs),
        lengths=torch.from_numpy(place.lengths),
        ids=place.ids,
        first=place.first,
        series=place.series,
        names=features.names,
        remarks=(*remarks, *features.remarks, *counters),
    )


def _from_wide(table: Table, schema: Schema, request: Request, limit: int) -> Parts:
    steps, remarks = find_steps(table, schema, request.like, request.features)
    request.check_size(table.name, 4 * table.rows * sum(map(len, steps.columns)), limit, "steps of all series")
    values, lengths = read_steps(table, steps, schema.missing or "error")
    coarse = warn_coarse_steps(table, steps) if request.like is None else ()
    return Parts(
        schema=wide_schema(schema, steps, request.like),
        inputs=torch.from_numpy(values),
        lengths=torch.from_numpy(lengths),
        ids=row_ids(table, schema),
        first=np.arange(table.rows),
        names=steps.names,
        remarks=(*remarks, *coarse),
    )


def _from_texts(table: Table, schema: Schema, request: Request, limit: int) -> Parts:
    if schema.text is None:
        raise DataError(f"{table.name} has no column of texts; name it with text=")
    if schema.layout == "strings":
        inputs, lengths, vocabulary = read_strings(table, schema.text, request.like)
    else:
        inputs, lengths, vocabulary = read_texts(table, schema.text, request.like, request.vocabulary_size)
    return Parts(
        schema=replace(schema, time=None),
        inputs=inputs,
        lengths=lengths,
        ids=row_ids(table, schema),
        first=np.arange(table.rows),
        vocabulary=vocabulary,
    )


def row_ids(table: Table, schema: Schema) -> tuple[str, ...]:
    """Return the names of series that have one row each; their numbers where they have no names."""
    if schema.id is None or schema.id not in table.columns:
        return tuple(str(table.row(row)) for row in range(table.rows))
    return tuple(map(plain, table.columns[schema.id]))
