"""Series in arrays: NumPy, PyTorch, lists of arrays of unequal length, and ``.npz`` files."""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sttau.data.cells import describe_rows
from sttau.data.dataset import Described, SequenceDataset
from sttau.data.features import warn_coarse
from sttau.data.folder import describe_files
from sttau.data.request import Request
from sttau.data.schema import Missing, Task, check_choice, list_names
from sttau.data.source import load_arrays
from sttau.data.targets import find_task, make_classes, make_values
from sttau.errors import DataError

Array = npt.NDArray[Any]

_NAMES = ("inputs", "lengths", "labels", "class_names", "feature_names", "vocabulary", "ids", "groups")
_LARGEST = float(np.finfo(np.float32).max)


def from_arrays(
    inputs: Any,
    targets: Any = None,
    lengths: Any = None,
    *,
    channels_first: bool = False,
    like: Described | None = None,
    task: Task | None = None,
    class_names: Sequence[str] = (),
    feature_names: Sequence[str] = (),
    vocabulary: Sequence[str] | None = None,
    ids: Any = None,
    groups: Any = None,
    missing: Missing | None = None,
    name: str = "arrays",
    split: str | None = None,
) -> SequenceDataset:
    """Return a data set of arrays.

    Args:
        inputs: (series, time) or (series, time, features) floats, (series, time) integer token ids, or a list of arrays
            of unequal length, (time,) or (time, features) each. Without ``lengths``, steps at the end of a series where
            all features are NaN are not part of it.
        targets: (series,) class labels of any kind, or values; may be missing with ``like``.
        lengths: (series,) valid steps.
        channels_first: Whether features come before time, (series, features, time), as in aeon and sktime.
        like: Training data, or a model with its metadata, whose classes and names are used.
        task: ``classification`` or ``regression``; by default, text, booleans and up to 20 distinct integers are
            classes, other numbers are values.
        class_names: Name of each class; integer targets are then positions in it.
        feature_names: Name of each feature.
        vocabulary: Token of each id.
        ids: Name of each series.
        groups: Group of each series, which :func:`sttau.data.split` can keep together.
        missing: ``error``, or ``keep`` for NaN where a feature is missing; as in ``like``, else ``error``, by default.
        name: Name of the data set.
        split: Name of the split; ``train`` without ``like`` and ``test`` with it by default.

    Example:
        >>> data = from_arrays([[[0.5], [1.0]], [[2.0]]], ["up", "down"])
        >>> data
        SequenceDataset(arrays, train: 2 sequences of 1 to 2 steps, 1 feature, 2 classes)
        >>> from_arrays(np.ones((4, 3, 50)), [1, 2, 1, 2], channels_first=True).inputs.shape
        torch.Size([4, 50, 3])
    """
    check_choice("task", task, Task)
    check_choice("missing", missing, Missing)
    values, given = _as_array(name, inputs, lengths, channels_first)
    tokens = values.ndim == 2
    count, steps = values.shape[:2]
    if given is None and not tokens and np.isnan(values).any():
        known = np.logical_not(np.isnan(values).all(2))
        given = np.where(known.any(1), steps - known[:, ::-1].argmax(1), steps)
    elif given is None:
        warn_padding(values)
    valid = np.full(count, steps) if given is None else _check_lengths(name, given, count, steps)
    if (valid < steps).any():
        values = values.copy() if isinstance(inputs, (np.ndarray, Tensor)) else values
        values[np.arange(steps) >= valid[:, None]] = 0
    known_names = _names(name, like, class_names, feature_names, vocabulary)
    given_values = values
    values = _as_tokens(name, values, known_names[2]) if tokens else _as_features(name, values, like, missing)
    features = known_names[1]
    if features and (tokens or len(features) != values.shape[2]):
        found = "token ids" if tokens else f"{values.shape[2]} features per step"
        raise DataError(f"{name} has {found}, but {'like' if like else 'feature_names'} has {len(features)} features")
    coarse = _warn_coarse(name, given_values, valid, features) if like is None and not tokens else ()
    labels, classes = _targets(name, targets, count, known_names[0], bool(class_names), like, task)
    return SequenceDataset(
        name=name,
        split=split or ("train" if like is None else "test"),
        inputs=torch.from_numpy(values),
        lengths=torch.from_numpy(valid.astype(np.int64)),
        labels=labels,
        class_names=classes,
        vocabulary=known_names[2] or None,
        feature_names=features,
        ids=_one_per_series(name, "ids", ids, count) or tuple(map(str, range(1, count + 1))),
        groups=_one_per_series(name, "groups", groups, count),
        provenance=f"{name}, {count:,} sequences",
        remarks=coarse,
    )


def read_arrays(path: Path, request: Request) -> SequenceDataset:
    """Read ``inputs`` and, where they exist, ``lengths``, ``labels``, ``ids`` and names from a ``.npz`` file."""
    limit = request.limit(path.stat().st_size)
    try:
        sizes = _sizes(path)
        total = sum(size for array, size in sizes.items() if array in _NAMES)
        request.check_size(path.name, total, limit, "arrays unpacked")
        arrays = load_arrays(path, [array for array in _NAMES if array in sizes])
    except DataError:
        raise
    except Exception as error:  # NumPy raises many kinds of errors for damaged files
        raise DataError(
            f"{path.name} cannot be read as a .npz of plain arrays: {type(error).__name__}: {str(error)[:300]}. "
            "Write it again with numpy.savez; objects cannot be read."
        ) from error
    if "inputs" not in arrays:
        raise DataError(f"{path.name} has no array 'inputs'; it has {list_names(list(sizes))}")
    names = {array: tuple(map(str, arrays[array].ravel())) for array in _NAMES[3:6] if array in arrays}
    data = from_arrays(
        arrays["inputs"],
        arrays.get("labels"),
        arrays.get("lengths"),
        like=request.like,
        task=request.roles.task,
        missing=request.roles.missing,
        ids=arrays.get("ids"),
        groups=arrays.get("groups"),
        name=path.name,
        split=request.split,
        **names,  # type: ignore[arg-type]
    )
    return replace(data, name=path.stem, provenance=describe_files(path, (path,), f"{len(data):,} sequences"))


def _sizes(path: Path) -> dict[str, int]:
    """Return the size of each array in bytes, by its header; an error if the file holds less than that."""
    sizes = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                version = np.lib.format.read_magic(file)
                read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
                shape, _, dtype = read[version](file)
            size = math.prod(shape) * dtype.itemsize
            if size > member.file_size:
                raise ValueError(f"array {member.filename} claims {size:,} bytes and has {member.file_size:,}")
            sizes[member.filename.removesuffix(".npy")] = size
    return sizes


# -- inputs ------------------------------------------------------------------------------------------------------------


def _as_array(name: str, inputs: Any, lengths: Any, channels_first: bool) -> tuple[Array, Any]:
    """Return (series, time, features) floats or (series, time) integers, and the lengths where they are known."""
    if isinstance(inputs, Tensor):
        inputs = inputs.detach().cpu().numpy()
    if isinstance(inputs, np.ndarray) and inputs.dtype != object:
        values = inputs
    else:
        parts = [np.asarray(part.detach().cpu() if isinstance(part, Tensor) else part) for part in inputs]
        if not parts:
            raise DataError(f"{name} holds no series; expected at least one")
        if channels_first:
            parts = [part.T if part.ndim == 2 else part for part in parts]
        if len({part.shape[1:] for part in parts}) > 1 or any(part.dtype.kind not in "biuf" for part in parts):
            shapes = list_names(sorted({f"{part.shape} {part.dtype}" for part in parts}), 3)
            raise DataError(
                f"{name} has series of different kinds: {shapes}; expected numbers, (time,) or (time, features) each, "
                "with the same features"
            )
        if lengths is None:
            lengths = np.array([len(part) for part in parts])
            longest = int(lengths.max())
            values = np.zeros((len(parts), longest, *parts[0].shape[1:]), dtype=np.result_type(*parts))
            for row, part in enumerate(parts):
                values[row, : len(part)] = part
        else:
            values = np.array(parts)
        channels_first = False
    if values.dtype.kind not in "biuf" or values.ndim not in (2, 3):
        raise DataError(
            f"{name} has inputs of shape {values.shape} and type {values.dtype}; expected (series, time, features) or "
            "(series, time) floats, or (series, time) integer token ids"
        )
    if 0 in values.shape:
        raise DataError(f"{name} has inputs of shape {values.shape}, which hold nothing")
    if values.ndim == 3 and channels_first:
        values = values.swapaxes(1, 2)
    if values.ndim == 2 and values.dtype.kind in "fb":
        values = values[:, :, None]
    return values, lengths


def _check_lengths(name: str, lengths: Any, count: int, steps: int) -> npt.NDArray[np.int64]:
    found = np.asarray(lengths)
    if found.shape != (count,) or found.dtype.kind not in "iu" or ((found < 1) | (found > steps)).any():
        raise DataError(f"{name} must have {count} integer lengths from 1 to {steps}, one per series")
    return found.astype(np.int64)


def _as_tokens(name: str, values: Array, vocabulary: Sequence[str] | None) -> Array:
    top = len(vocabulary) if vocabulary else int(np.iinfo(np.int32).max)
    wrong = np.argwhere((values < 0) | (values >= top))
    if len(wrong):
        row, step = wrong[0].tolist()
        raise DataError(
            f"{name} has the token id {values[row, step]} in row {row + 1} at step {step + 1}; expected 0 … {top - 1}. "
            "If these are no token ids but values, pass floats."
        )
    return values.astype(np.int32)


def _as_features(name: str, values: Array, like: Described | None, missing: Missing | None) -> Array:
    if missing is None and like is not None and like.schema is not None:
        missing = like.schema.missing
    with np.errstate(invalid="ignore", over="ignore"):
        within = np.abs(values) <= _LARGEST
    if values.dtype.kind == "f" and missing == "keep":
        within |= np.isnan(values)
    rows = np.flatnonzero(~within.reshape(len(values), -1).all(1)) + 1
    if len(rows):
        raise DataError(
            f"{name} has missing or infinite values, or some beyond float32, in {describe_rows(rows.tolist())} of "
            'inputs (counted from 1). Fill them in, leave those series out, or pass missing="keep" for a model that '
            "reads NaN."
        )
    return np.ascontiguousarray(values, dtype=np.float32)


def _warn_coarse(name: str, values: Array, lengths: Array, features: Sequence[str]) -> tuple[str, ...]:
    valid = np.arange(values.shape[1]) < lengths[:, None]
    names = [f"feature {feature!r}" for feature in features or range(1, values.shape[2] + 1)]
    return tuple(
        remark for place, what in enumerate(names) for remark in warn_coarse(name, what, [values[:, :, place][valid]])
    )


def warn_padding(inputs: Any) -> None:
    """Warn if inputs look padded: several steps at the end of a tenth of the series are zero, but not of all.

    Args:
        inputs: (series, time, features) or (series, time) token ids, for which no lengths were given.

    Example:
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     warn_padding(torch.tensor([[[1.0], [2.0], [3.0]], [[1.0], [0.0], [0.0]]]))
        >>> print(str(caught[0].message)[:57])
        1 of 2 series end with zeros in all features, up to 2 ste
    """
    values = inputs if isinstance(inputs, Tensor) else torch.as_tensor(np.asarray(inputs))
    if values.dim() < 2 or len(values) < 2 or values.shape[1] < 3:
        return
    used = (values != 0).reshape(*values.shape[:2], -1).any(2)
    trailing = torch.where(used.any(1), used.flip(1).int().argmax(1), 0)  # a series of zeros may be one
    padded = int((trailing >= 2).sum())
    if 10 * padded >= len(values) and bool((used.any(1) & (trailing == 0)).any()):
        warnings.warn(
            f"{padded:,} of {len(values):,} series end with zeros in all features, up to {int(trailing.max()):,} "
            "steps, and no lengths were given; if that is padding, pass lengths=, or the zeros are read as values",
            UserWarning,
            stacklevel=3,
        )


# -- names and targets -------------------------------------------------------------------------------------------------


def _names(
    name: str,
    like: Described | None,
    class_names: Sequence[str],
    feature_names: Sequence[str],
    vocabulary: Sequence[str] | None,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return names of classes and features and the vocabulary: those of ``like``, from which others must not differ."""
    given = {"class_names": class_names, "feature_names": feature_names, "vocabulary": vocabulary or ()}
    found = {what: tuple(map(str, names)) for what, names in given.items()}
    if like is not None:
        wanted = {what: tuple(getattr(like, what) or ()) for what in found}
        for what, names in found.items():
            if names and wanted[what] and names != wanted[what]:
                raise DataError(
                    f"{name} has other {what.replace('_', ' ')} than like: {list_names(names, 5)}, not "
                    f"{list_names(wanted[what], 5)}"
                )
        found = wanted
    for what, names in found.items():
        if len(set(names)) < len(names):
            raise DataError(f"{name} has the same name twice in {what}: {list_names(names, 5)}")
    return found["class_names"], found["feature_names"], found["vocabulary"]


def _one_per_series(name: str, what: str, values: Any, count: int) -> tuple[str, ...] | None:
    if values is None:
        return None
    found = tuple(map(str, np.asarray(values).tolist()))
    if len(found) != count:
        raise DataError(f"{name} has {len(found)} {what}; expected {count}, one per series")
    return found


def _targets(
    name: str,
    targets: Any,
    count: int,
    names: tuple[str, ...],
    positions: bool,
    like: Described | None,
    task: Task | None,
) -> tuple[Tensor, tuple[str, ...]]:
    if like is not None:
        task = "classification" if names else "regression"
    if targets is None:
        if like is None:
            raise DataError(f"{name} has no targets, which training needs; in a .npz they are called 'labels'")
        unknown = torch.full((count,), -1) if task == "classification" else torch.full((count,), math.nan)
        return unknown, names
    found = np.asarray(targets.detach().cpu() if isinstance(targets, Tensor) else targets)
    if found.shape != (count,):
        raise DataError(f"{name} has labels of shape {found.shape}; expected ({count},), one per series")
    cells, rows = found.tolist(), list(range(1, count + 1))
    task = task or ("classification" if positions else find_task(cells)[0])
    if task == "regression":
        return make_values(name, "labels", cells, rows, like), ()
    numbers = found.dtype.kind in "iu"
    if numbers and names and (positions or not all(text.lstrip("-").isdecimal() for text in names)):
        wrong = np.flatnonzero((found < (0 if like is None else -1)) | (found >= len(names)))
        if len(wrong):
            raise DataError(
                f"{name} has label {found[wrong[0]]} in row {wrong[0] + 1}; expected 0 … {len(names) - 1}, the "
                f"positions of {list_names(names)}"
            )
        return torch.from_numpy(found.astype(np.int64)), names
    if numbers and like is not None:
        cells = [None if cell == -1 and "-1" not in names else cell for cell in cells]
    if found.dtype.kind == "f" and any(not float(cell).is_integer() for cell in cells if not math.isnan(cell)):
        raise DataError(f"{name} has labels of type {found.dtype}; expected classes, or task='regression' for values")
    return make_classes(name, "labels", cells, rows, like)
