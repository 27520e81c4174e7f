"""Sequences as arrays in a NumPy file."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sttau.data.cells import as_number, describe_rows
from sttau.data.dataset import Described, SequenceDataset
from sttau.data.labels import Target, as_labels
from sttau.data.source import load_arrays


def provenance(path: Path, size: str) -> str:
    """Describe a file of users: its name, size and checksum."""
    return f"{path.name}, {size}, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}"


def read_arrays(path: Path, like: Described | None, target: Target, split: str) -> SequenceDataset:
    """Read ``inputs`` and, where they are given, ``lengths``, ``labels``, ``ids`` and names."""
    try:
        arrays = load_arrays(path)
    except Exception as error:  # NumPy raises many types for damaged files
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
        where = describe_rows((np.flatnonzero(~np.isfinite(inputs).reshape(count, -1).all(1)) + 1).tolist())
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
        provenance=provenance(path, f"{count:,} sequences"),
    )


def _as_in(
    path: Path, names: dict[str, tuple[str, ...]], like: Described, features: int | None
) -> dict[str, tuple[str, ...]]:
    """Return the names of ``like``; an error where those of the file differ."""
    wanted = {name: tuple(getattr(like, name) or ()) for name in names}
    for name, value in names.items():
        if value and wanted[name] and value != wanted[name]:
            raise ValueError(
                f"{path.name} has other {name.replace('_', ' ')} than like: {value[:5]}, not {wanted[name][:5]}"
            )
    if features is not None and wanted["feature_names"] and features != len(wanted["feature_names"]):
        raise ValueError(f"{path.name} has {features} features per step, but like has {len(wanted['feature_names'])}")
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
        return torch.tensor([as_number(path, cell, "labels", row) for row, cell in enumerate(cells, 1)]), ()
    if labels.dtype.kind == "U":
        rows = [[row] for row in range(count)]
        return as_labels(path, "labels", labels.tolist(), tuple(map(str, range(1, count + 1))), rows, like, target)
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{path.name} has labels of type {labels.dtype}; expected class numbers, or target='number'")
    names = names or tuple(map(str, range(int(labels.max()) + 1)))
    wrong = np.flatnonzero((labels < (0 if like is None else -1)) | (labels >= len(names)))
    if len(wrong):
        raise ValueError(
            f"{path.name} has label {labels[wrong[0]]} in row {wrong[0] + 1}; expected 0 … {len(names) - 1}"
        )
    return torch.from_numpy(labels.astype(np.int64)), names
