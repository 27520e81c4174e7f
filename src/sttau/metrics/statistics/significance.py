"""Tests of the difference between two methods on the same data. Two-sided; p-values are never 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_integer, check_level
from sttau.metrics.registry import COLUMNS
from sttau.metrics.rows import Rows
from sttau.metrics.statistics.evaluation import MetricFunction, check_rows, evaluate, evaluate_draws
from sttau.metrics.statistics.intervals import Interval, row_groups, tails
from sttau.metrics.statistics.resampling import draw_rows, draw_signs, in_pieces


@dataclass(frozen=True)
class Comparison:
    """Difference between two methods on the same data.

    Attributes:
        difference: Metric of a minus metric of b.
        p_value: Probability of a difference at least as large, in either direction, if the methods do not differ.
        interval: Bootstrap interval of the difference.
    """

    difference: float
    p_value: float
    interval: Interval | None = None


def randomization_test(
    a: Any,
    b: Any,
    *shared: Any,
    metric: MetricFunction = None,
    rounds: int = 9999,
    seed: int = 0,
) -> Comparison:
    """Approximate randomization test (Noreen, 1989), which the paper uses (§4.2, p ≤ 0.005).

    Under the null hypothesis, the predictions of the two methods are exchangeable. In each round, the predictions for
    every example are exchanged with probability one half; the p-value is the fraction of rounds with a difference at
    least as large as the observed one, (count + 1) / (rounds + 1).

    Args:
        a: Predictions of the first method, one row per example.
        b: Predictions of the second method on the same data, in the same order.
        *shared: Data that both methods share, such as labels.
        metric: Function of (predictions, *shared). By default the rows are single values, such as 1 for a wrong and 0
            for a right prediction, and their means are compared, many rounds at once.
        rounds: Number of rounds; the smallest p-value is 1 / (rounds + 1).
        seed: Seed of the exchanges.

    Example:
        >>> randomization_test([1, 1, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 0], rounds=999).p_value < 0.05
        True
        >>> from sttau.metrics import brier_score
        >>> p = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> randomization_test(p, p, [0, 1], metric=brier_score, rounds=99)
        Comparison(difference=0.0, p_value=1.0, interval=None)
    """
    first, second, rest = _paired(a, b, shared, metric)
    rounds = as_integer("rounds", rounds, 1)
    difference, threshold = _difference(metric, first, second, rest)
    if metric is None:
        apart = (first - second)[first != second].cpu() / len(first)  # exchanging equal values changes nothing
        exchanged = (signs @ apart for signs in draw_signs(len(apart), rounds, seed))
    else:
        exchanged = (
            _exchange(metric, first, second, rest, signs < 0) for signs in draw_signs(len(first), rounds, seed)
        )
    return Comparison(difference, _p_value(exchanged, threshold, rounds))


def paired_bootstrap(
    a: Any,
    b: Any,
    *shared: Any,
    metric: MetricFunction = None,
    resamples: int = 9999,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Bootstrap interval and test of the difference between two methods (Efron & Tibshirani, 1993, §16).

    Rows are drawn with replacement, the same for both methods. The interval takes quantiles of the resampled
    differences; the p-value is the fraction of them whose distance from the observed difference is at least the
    observed difference's distance from 0. For the p-value alone, prefer :func:`randomization_test`, which is exact for
    any number of predictions; this one is asymptotic.

    Args:
        a: Predictions of the first method, one row per example.
        b: Predictions of the second method on the same data, in the same order.
        *shared: Data that both methods share, such as labels.
        metric: Function of (predictions, *shared); the mean of single values by default.
        resamples: Number of resamples.
        level: Level of the interval.
        seed: Seed of the draws.

    Example:
        >>> found = paired_bootstrap([1, 1, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 0], resamples=999)
        >>> found.difference, found.interval.low > 0
        (0.75, True)
    """
    first, second, rest = _paired(a, b, shared, metric)
    check_level("level", level, 0.95)
    difference, threshold = _difference(metric, first, second, rest)
    values = torch.cat(
        [
            evaluate_draws(metric, [first, *rest], draws) - evaluate_draws(metric, [second, *rest], draws)
            for draws in draw_rows(len(first), resamples, seed)
        ]
    )
    low, high = values.quantile(tails(level)).tolist()
    p_value = _p_value([values - difference], threshold, resamples)
    return Comparison(difference, p_value, Interval(difference, low, high, level))


def metric_p_values(
    first: Sequence[Rows], second: Sequence[Rows], examples: int, rounds: int, seed: int
) -> dict[str, float]:
    """Approximate randomization test of two methods, for every table column with a direction.

    In each round, the predictions of all training seeds for an example are exchanged together.

    Args:
        first: Rows of every training seed of the first method; see :func:`sttau.metrics.rows.metric_rows`.
        second: Rows of every training seed of the second method, on the same data.
        examples: Number of in-distribution test examples; rows of detection continue with OOD examples.
        rounds: Number of rounds.
        seed: Seed of the exchanges.
    """
    found: dict[str, float] = {}
    for group, sizes in row_groups(first[0], examples):
        names = [name for name in group if COLUMNS[name].direction is not None]
        size = sum(sizes)
        ones = torch.ones(1, size, dtype=torch.float64)
        pairs = {name: [_pair(name, a[name], b[name]) for a, b in zip(first, second, strict=True)] for name in names}
        thresholds = {}
        for name, runs in pairs.items():
            values = [pair(ones) for pair in runs]
            left, right = sum(float(a) for a, _ in values), sum(float(b) for _, b in values)
            thresholds[name] = _threshold(left, right, abs(left) + abs(right))
        differences: dict[str, list[Tensor]] = {name: [] for name in names}
        for signs in in_pieces(draw_signs(size, rounds, seed)):
            keep = (1 + signs) / 2
            for name, runs in pairs.items():
                both = (pair(keep) for pair in runs)
                differences[name].append(sum((a - b for a, b in both), torch.zeros(())))
        found |= {name: _p_value(differences[name], thresholds[name], rounds) for name in names}
    return found


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction of several p-values, which bounds the probability of any false rejection by the level.

    Example:
        >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
        {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    adjusted, largest = {}, 0.0
    for place, (name, value) in enumerate(sorted(p.items(), key=lambda pair: pair[1])):
        largest = max(largest, min(1.0, (len(p) - place) * value))
        adjusted[name] = largest
    return adjusted


def _p_value(differences: Iterable[Tensor], threshold: float, rounds: int) -> float:
    """Return the fraction of differences that are at least as large as the observed one, which counts too."""
    count = sum(int((difference.abs() >= threshold).sum()) for difference in differences)
    return (count + 1) / (rounds + 1)


def _threshold(left: float, right: float, scale: float) -> float:
    """Return the smallest difference that counts as large; rounding must not separate equal differences."""
    return abs(left - right) - 1e-12 * scale


def _paired(a: Any, b: Any, shared: tuple[Any, ...], metric: MetricFunction) -> tuple[Tensor, Tensor, list[Tensor]]:
    if metric is None and shared:
        raise ValueError("shared data needs a metric that takes it; pass metric=")
    first, *rest = check_rows((a, *shared), metric)
    second = check_rows((b, *shared), metric)[0]
    if first.shape != second.shape:
        raise ValueError(
            f"a and b must have the same shape, one row per prediction, got {tuple(first.shape)} and "
            f"{tuple(second.shape)}"
        )
    return first, second.to(first.device), rest


def _difference(metric: MetricFunction, first: Tensor, second: Tensor, rest: list[Tensor]) -> tuple[float, float]:
    """Return the observed difference and the threshold for others."""
    left, right = evaluate(metric, [first, *rest]), evaluate(metric, [second, *rest])
    scale = float(first.abs().mean() + second.abs().mean()) if metric is None else abs(left) + abs(right)
    return left - right, _threshold(left, right, scale)


def _exchange(metric: MetricFunction, first: Tensor, second: Tensor, rest: list[Tensor], swaps: Tensor) -> Tensor:
    """Return (rounds,) the difference after each round of exchanging rows."""
    values = []
    for swap in swaps.to(first.device):
        mask = swap.reshape(-1, *(1,) * (first.dim() - 1))
        x, y = torch.where(mask, second, first), torch.where(mask, first, second)
        values.append(evaluate(metric, [x, *rest]) - evaluate(metric, [y, *rest]))
    return torch.tensor(values, dtype=torch.float64)


def _pair(name: str, first: Tensor, second: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Return both methods' values as a function of the rows to keep, 1, or to exchange, 0."""
    weighted = COLUMNS[name].weighted(torch.cat([first, second]))

    def values(keep: Tensor) -> tuple[Tensor, Tensor]:
        return weighted(torch.cat([keep, 1 - keep], 1)), weighted(torch.cat([1 - keep, keep], 1))

    return values
