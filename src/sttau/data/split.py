"""Splits of a data set, stratified or by group, and the seeded orders that they are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sttau.data.dataset import SequenceDataset
from sttau.errors import DataError

Array = npt.NDArray[Any]

_SEPARATED = 100  # series from which on early stopping and calibration have separate data


def shuffle(count: int, seed: int) -> Array:
    """Return 0 … count - 1 in a random order, the same on every machine and with every version of NumPy.

    NumPy guarantees that the raw words of PCG64 do not change; it does not for its ``permutation``.

    Example:
        >>> shuffle(5, seed=0).tolist()
        [3, 2, 1, 0, 4]
    """
    return np.argsort(np.random.PCG64(seed).random_raw(count), kind="stable")


def draw_uniform(count: int, seed: int) -> Array:
    """Return ``count`` floats, uniform in [0, 1), reproducible as :func:`shuffle` is.

    Example:
        >>> draw_uniform(2, seed=0).round(3).tolist()
        [0.637, 0.27]
    """
    words = np.random.PCG64(seed).random_raw(count) >> np.uint64(11)
    return words * 2.0**-53


def hold_out(labels: Array, part: int, seed: int) -> tuple[Array, Array]:
    """Hold out one of ``part`` rows, stratified by class; both parts are shuffled.

    Returns:
        Positions kept and positions held out; of the latter there are ``len(labels) // part``.

    Example:
        >>> kept, held = hold_out(np.array([0, 0, 0, 0, 1, 1, 1, 1]), part=4, seed=0)
        >>> len(kept), sorted((held // 4).tolist())
        (6, [0, 1])
    """
    order = shuffle(len(labels), seed)
    by_class = order[np.argsort(labels[order], kind="stable")]
    held = np.zeros(len(labels), dtype=bool)
    held[by_class[part - 1 :: part]] = True
    return order[~held[order]], order[held[order]]


def split(
    data: SequenceDataset,
    fractions: Sequence[float] = (0.8, 0.2),
    *,
    validation: float | None = None,
    by: str | Sequence[Any] | None = None,
    stratify: bool = True,
    seed: int = 0,
) -> tuple[SequenceDataset, ...]:
    """Split a data set at random, the same way on every machine.

    Args:
        data: Data set to split.
        fractions: Share of each part; they add up to 1. Two parts are called ``train`` and ``validation``, three
            ``train``, ``validation`` and ``test``.
        validation: Share of the second of two parts, instead of ``fractions``.
        by: Column of groups that stay together, named by ``group=`` when the data was read; or the group of each
            series.
        stratify: Whether each part gets its share of each class, as far as groups allow; of regression, all series are
            one class.
        seed: Seed of the random order.

    Returns:
        One data set per part, each in the order of ``data``.

    Example:
        >>> from sttau.data import load
        >>> train, validation = split(load("digits", "train"), validation=0.25)
        >>> len(train), len(validation), validation.labels.bincount().tolist()
        (810, 268, [27, 27, 26, 27, 27, 27, 27, 27, 26, 27])
    """
    shares = np.array(fractions if validation is None else (1 - validation, validation), dtype=np.float64)
    if len(shares) < 2 or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-6:
        wrong = f"fractions={tuple(fractions)}" if validation is None else f"validation={validation}"
        raise ValueError(f"the parts of a split must be above 0 and add up to 1, got {wrong}")
    classes = np.zeros(len(data), dtype=np.int64)
    if stratify and data.class_names:
        classes = np.unique(data.labels.numpy(), return_inverse=True)[1]
    order = shuffle(len(data), seed)
    if by is None:
        part = _assign_rows(classes, shares, order)
    else:
        part = _assign_groups(classes, shares, order, _find_groups(data, by))
    if len(np.unique(part)) < len(shares):
        raise DataError(f"{data.name} has too few series ({len(data)}) for parts of {', '.join(map(str, shares))}")
    names = {2: ("train", "validation"), 3: ("train", "validation", "test")}.get(len(shares))
    return tuple(
        replace(
            data.select(torch.from_numpy(np.flatnonzero(part == number))),
            split=names[number] if names else f"part {number + 1}",
        )
        for number in range(len(shares))
    )


def separate(held: SequenceDataset, seed: int = 0) -> tuple[SequenceDataset, SequenceDataset]:
    """Return held out data for early stopping and for calibration, in halves where there are at least 100 series.

    The weights that were chosen on some data fit it better than new data, so a model calibrated on the same data is
    overconfident. Groups stay together. Fewer series, or those of a single group, are used for both.

    Args:
        held: Data that is not trained on.
        seed: Seed of the split.

    Example:
        >>> from sttau.data import load
        >>> stopping, calibration = separate(load("digits", "validation"))
        >>> len(stopping), len(calibration)
        (182, 178)
        >>> few = load("digits", "validation").select(torch.arange(20))
        >>> separate(few)[0] is separate(few)[1] is few
        True
    """
    if len(held) < _SEPARATED or (held.groups is not None and len(set(held.groups)) < 2):
        return held, held
    stopping, calibration = split(held, validation=0.5, by=held.groups, seed=seed)
    return stopping, calibration


def _assign_rows(classes: Array, shares: Array, order: Array) -> Array:
    """Return the part of each row: in each class, the one that lacks most."""
    counts = np.zeros((int(classes.max(initial=0)) + 1, len(shares)))
    totals = np.zeros(len(counts))
    part = np.empty(len(classes), dtype=np.int64)
    for row in order.tolist():
        kind = classes[row]
        totals[kind] += 1
        part[row] = number = int((totals[kind] * shares - counts[kind]).argmax())
        counts[kind, number] += 1
    return part


def _find_groups(data: SequenceDataset, by: str | Sequence[Any]) -> Array:
    """Return the number of each series' group."""
    if isinstance(by, str):
        column = data.schema.group if data.schema is not None else None
        if data.groups is None or (column is not None and by != column):
            has = f"the groups of column {column!r}" if column else "no groups"
            raise DataError(f"{data.name} has {has}, but by={by!r}; read it with group={by!r}")
        by = data.groups
    if len(by) != len(data):
        raise ValueError(f"by must hold the group of each of the {len(data)} series, got {len(by)}")
    return np.unique(np.asarray(by).astype(str), return_inverse=True)[1]


def _assign_groups(classes: Array, shares: Array, order: Array, groups: Array) -> Array:
    """Return the part of each row: groups, the largest first, go where counts of classes then deviate least."""
    number_of_groups = int(groups.max()) + 1
    if number_of_groups < len(shares):
        raise DataError(f"there are {number_of_groups} groups for {len(shares)} parts; each part needs at least one")
    sizes = np.zeros((number_of_groups, int(classes.max()) + 1))
    np.add.at(sizes, (groups, classes), 1)
    totals = sizes.sum(0)
    lacking = shares[:, None] * totals  # (parts, classes)
    seen = list(dict.fromkeys(groups[order].tolist()))  # in random order; the sort keeps it where sizes are equal
    waiting = sorted(seen, key=lambda group: -sizes[group].sum())
    part = np.full(number_of_groups, -1)
    for position, group in enumerate(waiting):
        empty = [number for number in range(len(shares)) if number not in part]
        candidates = empty if len(waiting) - position <= len(empty) else range(len(shares))
        cost = {p: float((((lacking[p] - sizes[group]) ** 2 - lacking[p] ** 2) / totals).sum()) for p in candidates}
        part[group] = best = min(cost, key=cost.__getitem__)
        lacking[best] -= sizes[group]
    return part[groups]
