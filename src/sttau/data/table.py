"""Users' own data: tables of sequences or texts, from CSV, JSON lines, Parquet or NumPy files (docs/data.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date, datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sttau.data.array_file import provenance, read_arrays
from sttau.data.cells import as_name, as_number, describe_rows, is_missing
from sttau.data.columns import Columns, read_columns
from sttau.data.dataset import Described, SequenceDataset
from sttau.data.labels import Target, as_labels
from sttau.data.text import build_vocabulary, encode, tokenize


def read(
    path: str | os.PathLike[str],
    *,
    like: Described | None = None,
    target: Target = "class",
    sequence: str = "sequence",
    time: str = "time",
    label: str = "label",
    text: str = "text",
    features: Sequence[str] | None = None,
    vocabulary_size: int = 5000,
    split: str | None = None,
) -> SequenceDataset:
    r"""Read sequences or texts from a file: ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet`` or ``.npz``.

    A table with a column ``text`` holds one text per row. Any other table is long: one row per step, with the
    identifier of its sequence, its time (optional; rows of a sequence are sorted by it) and its features; the label is
    the same in all rows of a sequence. Missing values raise an error; they are never imputed. Rows are counted from 1,
    without the header.

    Args:
        path: Path of the file; its suffix determines the format.
        like: Training data, or a model with its metadata. Classes, features and vocabulary are taken from there, and
            labels may be missing: they become -1, or NaN for regression.
        target: Type of the labels, ``class`` or ``number``; with ``like`` that of the training data.
        sequence: Column with the identifier of the sequence.
        time: Column that orders the rows of a sequence, as numbers or ISO dates.
        label: Column of labels.
        text: Column of texts.
        features: Columns of features, in this order; all other columns by default.
        vocabulary_size: Number of tokens to keep from training texts.
        split: Name of the split; by default ``train`` without ``like``, ``test`` with it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "beats.csv"
        ...     _ = path.write_text("sequence,time,mv,label\na,2,0.5,sick\na,1,0.25,sick\nb,1,0,well\n")
        ...     data = read(path)
        >>> data.inputs[:, :, 0].tolist(), data.lengths.tolist(), data.labels.tolist(), data.class_names
        ([[0.25, 0.5], [0.0, 0.0]], [2, 1], [0, 1], ('sick', 'well'))
    """
    path = Path(path)
    if target not in ("class", "number"):
        raise ValueError(f"target must be 'class' or 'number', got {target!r}")
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    if like is not None:
        target = "class" if like.class_names else "number"
    split = split or ("train" if like is None else "test")
    if path.suffix.lower() == ".npz":
        return read_arrays(path, like, target, split)

    columns = read_columns(path)
    count = len(next(iter(columns.values()), []))
    if count == 0:
        raise ValueError(f"{path.name} holds no rows")
    if text in columns:
        inputs, lengths, vocabulary = _texts(path, columns[text], like, vocabulary_size)
        groups = [[row] for row in range(count)]
        ids = tuple(map(as_name, columns[sequence])) if sequence in columns else tuple(map(str, range(1, count + 1)))
        names: tuple[str, ...] = ()
    else:
        ids, groups = _sequences(path, columns, sequence, time)
        names = _feature_names(path, columns, like, features, {sequence, time, label})
        inputs, lengths = _features(path, columns, names, groups)
        vocabulary = None
    cells = columns.get(label)
    if cells is None and like is None:
        raise ValueError(f"{path.name} has no column {label!r}, which training needs; it has {', '.join(columns)}")
    labels, class_names = as_labels(path, label, cells, ids, groups, like, target)
    return SequenceDataset(
        name=path.stem,
        split=split,
        inputs=inputs,
        lengths=lengths,
        labels=labels,
        class_names=class_names,
        vocabulary=vocabulary,
        feature_names=names,
        ids=ids,
        provenance=provenance(path, f"{count:,} rows"),
    )


def _texts(path: Path, cells: list[Any], like: Described | None, size: int) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    empty = [row for row, cell in enumerate(cells, 1) if cell is None or not tokenize(str(cell))]
    if empty:
        raise ValueError(f"{path.name} has no text in {describe_rows(empty)}; leave such rows out")
    if like is not None and like.vocabulary is None:
        raise ValueError(
            f"{path.name} holds texts, but like has no vocabulary; was it trained on texts? "
            "For a model, call model.set_metadata(train) before it is saved."
        )
    texts = list(map(str, cells))
    vocabulary = build_vocabulary(texts, size) if like is None or like.vocabulary is None else like.vocabulary
    return *encode(texts, vocabulary), vocabulary


def _sequences(path: Path, columns: Columns, sequence: str, time: str) -> tuple[tuple[str, ...], list[list[int]]]:
    """Names of the sequences, and the rows of each in the order of time."""
    if sequence not in columns:
        raise ValueError(
            f"{path.name} has no column {sequence!r} that says which sequence a row belongs to, and none with texts; "
            f"it has {', '.join(columns)}. Name one with sequence= or text=."
        )
    unnamed = [row for row, cell in enumerate(columns[sequence], 1) if is_missing(cell)]
    if unnamed:
        raise ValueError(
            f"{path.name} has no {sequence!r} in {describe_rows(unnamed)}; every row must belong to a sequence"
        )
    groups: dict[str, list[int]] = {}
    for row, cell in enumerate(columns[sequence]):
        groups.setdefault(as_name(cell), []).append(row)
    if time in columns:
        when = _times(path, columns[time], time)
        for name, rows in groups.items():
            rows.sort(key=lambda row: when[row])
            for one, two in pairwise(rows):
                if when[one] == when[two]:
                    raise ValueError(
                        f"{path.name} has the {time!r} {columns[time][one]!r} twice in sequence {name!r}: "
                        f"{describe_rows([one + 1, two + 1])}"
                    )
    return tuple(groups), list(groups.values())


def _times(path: Path, cells: list[Any], name: str) -> list[float]:
    missing = [row for row, cell in enumerate(cells, 1) if is_missing(cell)]
    if missing:
        raise ValueError(
            f"{path.name} has no {name!r} in {describe_rows(missing)}; fill it in, or leave out the whole column"
        )
    times = []
    for row, cell in enumerate(cells, 1):
        try:
            times.append(_moment(cell))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{path.name} has {cell!r} as {name!r} in row {row}; expected a number or an ISO date"
            ) from error
    return times


def _moment(cell: Any) -> float:
    """A time as a number; dates without a zone are taken as UTC, since only their order counts."""
    if isinstance(cell, str):
        try:
            return float(cell)
        except ValueError:
            cell = datetime.fromisoformat(cell.strip().replace("Z", "+00:00"))
    if isinstance(cell, datetime):
        return (cell if cell.tzinfo else cell.replace(tzinfo=timezone.utc)).timestamp()
    if isinstance(cell, date):
        return float(cell.toordinal() * 86400)
    return float(cell)


def _feature_names(
    path: Path, columns: Columns, like: Described | None, features: Sequence[str] | None, others: set[str]
) -> tuple[str, ...]:
    if features is not None:
        names = tuple(features)
    elif like is None:
        names = tuple(name for name in columns if name not in others)
    elif like.feature_names:
        names = like.feature_names
    else:
        raise ValueError(
            "like does not know the names of its features; was it trained on a long table? "
            "For a model, call model.set_metadata(train) before it is saved."
        )
    lacking = [name for name in names if name not in columns]
    if lacking or not names:
        what = f"no column {lacking[0]!r} for a feature" if lacking else "no columns for features"
        raise ValueError(f"{path.name} has {what}; it has {', '.join(columns)}")
    return names


def _features(path: Path, columns: Columns, names: tuple[str, ...], groups: list[list[int]]) -> tuple[Tensor, Tensor]:
    missing: dict[str, list[int]] = {}
    values = np.empty((len(columns[names[0]]), len(names)))
    for place, name in enumerate(names):
        for row, cell in enumerate(columns[name]):
            if is_missing(cell):
                missing.setdefault(name, []).append(row + 1)
            else:
                values[row, place] = as_number(path, cell, name, row + 1)
    if missing:
        total = sum(map(len, missing.values()))
        raise ValueError(
            f"{path.name} has {total} missing value{'s' * (total > 1)}: "
            + "; ".join(f"{name!r} in {describe_rows(rows)}" for name, rows in missing.items())
            + ". They are not guessed: fill them in, or leave those sequences out."
        )
    lengths = torch.tensor([len(rows) for rows in groups])
    inputs = torch.zeros(len(groups), int(lengths.max()), len(names))
    for place, rows in enumerate(groups):
        inputs[place, : len(rows)] = torch.from_numpy(values[rows])
    return inputs, lengths
