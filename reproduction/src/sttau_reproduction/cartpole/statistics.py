"""Statistics over seeds: interquartile means and stratified bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sttau.jobs import Result
from sttau_reproduction.metrics import metrics_of


class Estimate(NamedTuple):
    """A number with its 95% interval."""

    value: float
    low: float
    high: float


def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the last dimension."""
    return np.asarray(values.mean(-1))


def interquartile_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the middle half, over the last dimension (Agarwal et al., 2021).

    Example:
        >>> float(interquartile_mean(np.array([0.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 99.0])))
        12.5
    """
    count = values.shape[-1]
    return np.asarray(np.sort(values, -1)[..., count // 4 : count - count // 4].mean(-1))


def median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The middle value over the last dimension, the upper one of two: infinity, where half are infinite."""
    return np.asarray(np.sort(values, -1)[..., values.shape[-1] // 2])


def bootstrap(
    strata: Sequence[Sequence[float]],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]] = mean,
    draws: int = 2000,
    seed: int = 0,
) -> Estimate:
    """A statistic of all values, and its 95% interval by a bootstrap that draws seeds anew within every stratum.

    Example:
        >>> bootstrap([[1.0, 1.0], [3.0, 3.0]])
        Estimate(value=2.0, low=2.0, high=2.0)
    """
    generator = np.random.default_rng(seed)
    parts = [np.asarray(part, dtype=np.float64) for part in strata]
    drawn = np.concatenate([part[generator.integers(len(part), size=(draws, len(part)))] for part in parts], -1)
    ordered = np.sort(statistic(drawn))  # no interpolation: it would make NaN of infinities
    low, high = ordered[int(0.025 * draws)], ordered[int(0.975 * draws)]
    return Estimate(float(statistic(np.concatenate(parts))), float(low), float(high))


def select(results: Iterable[Result], **wanted: object) -> list[Result]:
    """Results with these values, by the names of fields or settings."""
    return [
        result
        for result in results
        if all(getattr(result, name, result.settings.get(name)) == value for name, value in wanted.items())
    ]


def values(results: Iterable[Result], metric: str) -> list[float]:
    """A metric of each; infinity, where the goal was never reached."""
    return [metrics_of(result).get(metric, math.inf) for result in results]


def curve_of(result: Result, name: str) -> list[float]:
    """A learning curve of a result; τ is called ``temperature`` in results of version 0.1."""
    curves: dict[str, list[float]] = result.settings["curves"]
    return curves["temperature"] if name == "tau" and name not in curves else curves[name]
