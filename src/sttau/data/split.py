"""Seeded orders that splits are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


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
