"""Your own data: tables of sequences or texts, from CSV, JSON lines, Parquet or NumPy files (docs/data.md)."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from datetime import date, datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sttau.data.dataset import Described, SequenceDataset
from sttau.data.source import load_arrays
from sttau.data.text import build_vocabulary, encode, tokenize

Target = Literal["class", "number"]
Columns = dict[str, list[Any]]

_NOTHING = {"", "na", "n/a", "nan", "null", "none", "?"}
_SHOWN = 5


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

    A table with a column ``text`` holds a text a row. Any other table is long: a row for each step, with the sequence
    it belongs to, its time (optional; rows of a sequence are put into its order) and its features; the label is the
    same in all rows of a sequence. Missing values are reported, never guessed. Rows are counted from 1, without the
    header.

    Args:
        path: of the file; how it ends says what it is.
        like: the training data, or a model that remembers it. Classes, features and vocabulary are then taken from
            there, and labels may be missing: they become -1, or NaN where numbers are to be predicted.
        target: whether labels are classes or numbers; with ``like`` it is what that has.
        sequence: column that says which sequence a row belongs to.
        time: column that orders the rows of a sequence, as numbers or ISO dates.
        label: column of labels.
        text: column of texts.
        features: columns to take as features, in this order; else all that are left.
        vocabulary_size: tokens to keep of training texts.
        split: what to call the part; else ``train`` without ``like``, ``test`` with it.

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
        return _read_arrays(path, like, target, split)

    columns = _read_columns(path)
    count = len(next(iter(columns.values()), []))
    if count == 0:
        raise ValueError(f"{path.name} holds no rows")
    if text in columns:
        inputs, lengths, vocabulary = _texts(path, columns[text], like, vocabulary_size)
        groups = [[row] for row in range(count)]
        ids = tuple(map(_plain, columns[sequence])) if sequence in columns else tuple(map(str, range(1, count + 1)))
        names: tuple[str, ...] = ()
    else:
        ids, groups = _sequences(path, columns, sequence, time)
        names = _feature_names(path, columns, like, features, {sequence, time, label})
        inputs, lengths = _features(path, columns, names, groups)
        vocabulary = None
    cells = columns.get(label)
    if cells is None and like is None:
        raise ValueError(f"{path.name} has no column {label!r}, which training needs; it has {', '.join(columns)}")
    labels, class_names = _labels(path, label, cells, ids, groups, like, target)
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
        provenance=_provenance(path, f"{count:,} rows"),
    )


def _provenance(path: Path, size: str) -> str:
    return f"{path.name}, {size}, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}"


# -- files into columns ------------------------------------------------------------------------------------------------


def _read_columns(path: Path) -> Columns:
    readers: dict[str, Callable[[Path], Columns]] = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".jsonl": _read_jsonl,
        ".parquet": _read_parquet,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path.name} must end in {', '.join(readers)} or .npz, which says how it is to be read")
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


# -- columns into tensors ----------------------------------------------------------------------------------------------


def _texts(path: Path, cells: list[Any], like: Described | None, size: int) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    empty = [row for row, cell in enumerate(cells, 1) if cell is None or not tokenize(str(cell))]
    if empty:
        raise ValueError(f"{path.name} has no text in {_rows(empty)}; leave such rows out")
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
    unnamed = [row for row, cell in enumerate(columns[sequence], 1) if _is_missing(cell)]
    if unnamed:
        raise ValueError(f"{path.name} has no {sequence!r} in {_rows(unnamed)}; every row must belong to a sequence")
    groups: dict[str, list[int]] = {}
    for row, cell in enumerate(columns[sequence]):
        groups.setdefault(_plain(cell), []).append(row)
    if time in columns:
        when = _times(path, columns[time], time)
        for name, rows in groups.items():
            rows.sort(key=lambda row: when[row])
            for one, two in pairwise(rows):
                if when[one] == when[two]:
                    raise ValueError(
                        f"{path.name} has the {time!r} {columns[time][one]!r} twice in sequence {name!r}: "
                        f"{_rows([one + 1, two + 1])}"
                    )
    return tuple(groups), list(groups.values())


def _times(path: Path, cells: list[Any], name: str) -> list[float]:
    missing = [row for row, cell in enumerate(cells, 1) if _is_missing(cell)]
    if missing:
        raise ValueError(f"{path.name} has no {name!r} in {_rows(missing)}; fill it in, or leave out the whole column")
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
            if _is_missing(cell):
                missing.setdefault(name, []).append(row + 1)
            else:
                values[row, place] = _number(path, cell, name, row + 1)
    if missing:
        total = sum(map(len, missing.values()))
        raise ValueError(
            f"{path.name} has {total} missing value{'s' * (total > 1)}: "
            + "; ".join(f"{name!r} in {_rows(rows)}" for name, rows in missing.items())
            + ". They are not guessed: fill them in, or leave those sequences out."
        )
    lengths = torch.tensor([len(rows) for rows in groups])
    inputs = torch.zeros(len(groups), int(lengths.max()), len(names))
    for place, rows in enumerate(groups):
        inputs[place, : len(rows)] = torch.from_numpy(values[rows])
    return inputs, lengths


def _number(path: Path, cell: Any, name: str, row: int) -> float:
    try:
        number = float(cell)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path.name} has {cell!r} as {name!r} in row {row}; expected a number. "
            "If that column is no feature, name the features with features=[…]."
        ) from error
    if not math.isfinite(number):
        raise ValueError(f"{path.name} has {cell!r} as {name!r} in row {row}; expected a finite number")
    return number


def _labels(
    path: Path,
    label: str,
    cells: list[Any] | None,
    ids: tuple[str, ...],
    groups: list[list[int]],
    like: Described | None,
    target: Target,
) -> tuple[Tensor, tuple[str, ...]]:
    """One label for each sequence, and the names of the classes."""
    found: list[tuple[str, int]] = []
    for name, rows in zip(ids, groups, strict=True):
        texts = ["" if cells is None or _is_missing(cells[row]) else _plain(cells[row]) for row in rows]
        for row, other in zip(rows, texts, strict=True):
            if other != texts[0]:
                raise ValueError(
                    f"{path.name} has the {label!r} {texts[0]!r} and {other!r} in sequence {name!r} "
                    f"({_rows([rows[0] + 1, row + 1])}); expected the same in all its rows"
                )
        found.append((texts[0], rows[0] + 1))
    missing = [row for value, row in found if not value]
    if missing and like is None:
        raise ValueError(f"{path.name} has no {label!r} in {_rows(missing)}; training needs one for each sequence")
    if target == "number":
        numbers = [_number(path, value, label, row) if value else math.nan for value, row in found]
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
    """In the order of numbers, if they all are whole ones."""
    whole = all(name.lstrip("-").isdecimal() for name in names)
    return sorted(names, key=int) if whole else sorted(names)


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip().lower() in _NOTHING
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def _plain(cell: Any) -> str:
    """A name as text, the same whether a file holds 1, 1.0 or "1"."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return str(cell).strip()


def _rows(rows: list[int]) -> str:
    shown = ", ".join(map(str, rows[:_SHOWN])) + (f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else "")
    return f"row{'s' * (len(rows) > 1)} {shown}"


# -- arrays ------------------------------------------------------------------------------------------------------------


def _read_arrays(path: Path, like: Described | None, target: Target, split: str) -> SequenceDataset:
    """Read ``inputs``, and what there is of ``lengths``, ``labels``, ``ids`` and the names of what they hold."""
    try:
        arrays = load_arrays(path)
    except Exception as error:  # numpy raises what it likes for damaged files
        raise ValueError(f"{path.name} cannot be read as a .npz of plain arrays: {error}") from error
    if "inputs" not in arrays:
        raise ValueError(f"{path.name} has no array 'inputs'; it has {', '.join(arrays) or 'none'}")
    inputs = arrays["inputs"]
    tokens = inputs.ndim == 2 and inputs.dtype.kind in "iu"
    if not tokens and not (inputs.ndim == 3 and inputs.dtype.kind in "fiu"):
        raise ValueError(
            f"{path.name} has inputs of shape {inputs.shape} and type {inputs.dtype}; "
            "expected (sequences, time, features) numbers or (sequences, time) whole token ids"
        )
    count, steps = inputs.shape[:2]
    lengths = arrays.get("lengths", np.full(count, steps))
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu" or ((lengths < 1) | (lengths > steps)).any():
        raise ValueError(f"{path.name} must have {count} whole lengths from 1 to {steps}, one for each sequence")
    within = np.arange(steps) < lengths[:, None]
    inputs = np.where(within if tokens else within[:, :, None], inputs, 0).astype(np.int32 if tokens else np.float32)
    if not np.isfinite(inputs).all():
        where = _rows((np.flatnonzero(~np.isfinite(inputs).reshape(count, -1).all(1)) + 1).tolist())
        raise ValueError(
            f"{path.name} has missing or infinite values in {where} of inputs (counted from 1). "
            "They are not guessed: fill them in, or leave those sequences out."
        )
    names = {name: tuple(map(str, arrays.get(name, ()))) for name in ("class_names", "feature_names", "vocabulary")}
    if like is not None:
        names = _as_in(path, names, like, None if tokens else inputs.shape[2])
    labels, class_names = _array_labels(path, arrays.get("labels"), count, names["class_names"], like, target)
    ids = arrays.get("ids")
    return SequenceDataset(
        name=path.stem,
        split=split,
        inputs=torch.from_numpy(inputs),
        lengths=torch.from_numpy(lengths.astype(np.int64)),
        labels=labels,
        class_names=class_names,
        vocabulary=names["vocabulary"] or None,
        feature_names=names["feature_names"],
        ids=tuple(map(str, range(1, count + 1) if ids is None else ids)),
        provenance=_provenance(path, f"{count:,} sequences"),
    )


def _as_in(
    path: Path, names: dict[str, tuple[str, ...]], like: Described, features: int | None
) -> dict[str, tuple[str, ...]]:
    """The names of ``like``; an error where the file says otherwise."""
    wanted = {name: tuple(getattr(like, name) or ()) for name in names}
    for name, value in names.items():
        if value and wanted[name] and value != wanted[name]:
            raise ValueError(
                f"{path.name} has other {name.replace('_', ' ')} than like: {value[:5]}, not {wanted[name][:5]}"
            )
    if features is not None and wanted["feature_names"] and features != len(wanted["feature_names"]):
        raise ValueError(f"{path.name} has {features} features a step, but like has {len(wanted['feature_names'])}")
    return wanted


def _array_labels(
    path: Path,
    labels: npt.NDArray[Any] | None,
    count: int,
    names: tuple[str, ...],
    like: Described | None,
    target: Target,
) -> tuple[Tensor, tuple[str, ...]]:
    if labels is None:
        if like is None:
            raise ValueError(f"{path.name} has no array 'labels', which training needs")
        unknown = torch.full((count,), -1) if target == "class" else torch.full((count,), math.nan)
        return unknown, names if target == "class" else ()
    if labels.shape != (count,):
        raise ValueError(f"{path.name} has labels of shape {labels.shape}; expected ({count},), one for each sequence")
    if target == "number":
        cells: list[Any] = labels.tolist()
        return torch.tensor([_number(path, cell, "labels", row) for row, cell in enumerate(cells, 1)]), ()
    if labels.dtype.kind == "U":
        rows = [[row] for row in range(count)]
        return _labels(path, "labels", labels.tolist(), tuple(map(str, range(1, count + 1))), rows, like, target)
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{path.name} has labels of type {labels.dtype}; expected class numbers, or target='number'")
    names = names or tuple(map(str, range(int(labels.max()) + 1)))
    wrong = np.flatnonzero((labels < (0 if like is None else -1)) | (labels >= len(names)))
    if len(wrong):
        raise ValueError(
            f"{path.name} has label {labels[wrong[0]]} in row {wrong[0] + 1}; expected 0 … {len(names) - 1}"
        )
    return torch.from_numpy(labels.astype(np.int64)), names
