"""Weights of series, such that a weight and a repetition are the same."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from sttau.checks import check_rate
from sttau.data import SequenceDataset, separate, split
from sttau.errors import DataError
from sttau.training.sample_weights import as_class_weight, balanced_weights

Array = npt.NDArray[Any]

#: Largest number of rows, per distinct series, that weights are rounded to.
_MAX_ROWS = 10


def merge_equal(data: SequenceDataset, weights: Array) -> tuple[SequenceDataset, Array]:
    """Return each distinct series once, in the order of their hashes, and the sum of its weights.

    The result does not depend on the order of rows, nor on whether a series is given twice or with twice the weight,
    and neither does what is trained on it.

    Args:
        data: Labeled series.
        weights: (series,) weights; series of weight 0 are left out.

    Example:
        >>> from sttau.data import from_arrays
        >>> data = from_arrays(np.array([[1.0], [2.0], [1.0], [3.0]]), [0.5, 0.5, 0.5, 0.5], task="regression")
        >>> distinct, weights = merge_equal(data, np.array([1.0, 3.0, 1.0, 0.0]))
        >>> sorted(zip(distinct.inputs.flatten().tolist(), weights.tolist()))
        [(1.0, 2.0), (2.0, 3.0)]
    """
    inputs, lengths, labels = data.inputs.numpy(), data.lengths.numpy(), data.labels.numpy()
    rows = zip(inputs, lengths, labels, strict=True)
    keys = [hashlib.sha256(x[:n].tobytes() + label.tobytes()).hexdigest() for x, n, label in rows]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    total = np.bincount(which, weights)
    kept = total > 0
    return data.select(torch.from_numpy(first[kept])), total[kept]


def repeat_by_weight(data: SequenceDataset, weights: Array) -> SequenceDataset:
    """Return a data set in which each series occurs in proportion to its weight.

    The series of the smallest weight occurs once, unless that took more than ten times the rows; then series of small
    weights occur in turn.

    Args:
        data: Labeled series.
        weights: (series,) positive weights.

    Example:
        >>> from sttau.data import from_arrays
        >>> data = from_arrays(np.array([[1.0], [2.0], [3.0]]), [0.1, 0.2, 0.3], task="regression")
        >>> repeat_by_weight(data, np.array([0.5, 1.5, 1.0])).inputs.flatten().tolist()
        [1.0, 2.0, 2.0, 2.0, 3.0, 3.0]
    """
    scale = min(1 / weights.min(), _MAX_ROWS * len(weights) / weights.sum())
    copies = np.diff(np.floor(np.cumsum(weights) * scale + 0.5), prepend=0).astype(np.int64)
    return data.select(torch.from_numpy(np.repeat(np.arange(len(weights)), copies)))


def weigh_classes(class_weight: Any, classes: Array, labels: Array, weights: Array) -> Array:
    """Return (series,) weights multiplied by those of their classes.

    Args:
        class_weight: None; ``balanced``, so that all classes have the same sum of weights; or the weight of each class,
            1 where it is not named.
        classes: The classes.
        labels: (series,) positions in ``classes``.
        weights: (series,) weights of the series.
    """
    if class_weight is None:
        return weights
    if not (class_weight == "balanced" or isinstance(class_weight, Mapping)):
        raise ValueError(f"class_weight must be None, 'balanced' or a dictionary, got {class_weight!r}")
    checked: Any = as_class_weight(class_weight)
    if checked == "balanced":
        per_class = balanced_weights(torch.as_tensor(labels), torch.as_tensor(weights), len(classes)).numpy()
    else:
        unknown = set(checked) - set(classes.tolist())
        if unknown:
            raise ValueError(f"class_weight names {sorted(map(str, unknown))}, which y does not have")
        per_class = np.array([checked.get(name, 1.0) for name in classes.tolist()])
    product: Array = weights * per_class[labels]
    return product


class Parts(NamedTuple):
    """Training data with the weight of each series, and the data for early stopping and for calibration."""

    train: SequenceDataset
    weights: Array
    validation: SequenceDataset | None
    calibration: SequenceDataset | None


def hold_out(data: SequenceDataset, weights: Array, fraction: float, seed: int) -> Parts:
    """Return training data with its weights, and held out data in which series are repeated by their weights.

    Early stopping and calibration have separate data where :func:`~sttau.data.separate` separates it.

    Args:
        data: Distinct labeled series.
        weights: (series,) positive weights.
        fraction: Share of the series that is held out; 0 for none. Where that is less than one series, none is.
        seed: Seed of the split.
    """
    check_rate("validation_fraction", fraction)
    if fraction == 0:
        return Parts(data, weights, None, None)
    numbered = replace(data, ids=tuple(map(str, range(len(data)))))
    try:
        train, held = split(numbered, validation=fraction, seed=seed)
    except DataError:
        warnings.warn(
            f"validation_fraction={fraction} of {len(data)} distinct series holds none: all are trained on, and the "
            "model is not calibrated; pass more series, a larger fraction, or 0",
            stacklevel=4,
        )
        return Parts(data, weights, None, None)

    def own(part: SequenceDataset) -> Array:
        return weights[[int(row) for row in part.ids or ()]]

    parts = (repeat_by_weight(part, own(part)) for part in separate(held, seed))
    return Parts(train, own(train), *parts)
