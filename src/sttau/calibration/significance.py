"""Is A better than B? Tests for two methods measured on the same data. Two-sided; p-values are never 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sttau.calibration.intervals import Interval, check_rows, check_share, draw_rows, measure, measure_each

_CHUNK_NUMBERS = 1 << 22


@dataclass(frozen=True)
class Comparison:
    """How two methods differ on the same data.

    Attributes:
        difference: metric of a - metric of b.
        p_value: how probable a difference at least as large, in either direction, is if there is none.
        interval: of the difference, from the bootstrap.
    """

    difference: float
    p_value: float
    interval: Interval | None = None


def randomization_test(
    a: Any,
    b: Any,
    *shared: Any,
    metric: Callable[..., float] | None = None,
    rounds: int = 9999,
    seed: int = 0,
) -> Comparison:
    """Approximate randomization test (Noreen, 1989), the paper's test (§4.2, p ≤ 0.005).

    If the methods do not differ, which of the two answers came from which is a coin toss. So the answers of every
    prediction are exchanged with probability one half, many times, and p is the share of differences at least as large
    as the real one, (count + 1) / (rounds + 1).

    Args:
        a: answers of the first method: one row a prediction.
        b: answers of the second on the same data, in the same order.
        *shared: what belongs to both, such as labels.
        metric: a function of (answers, *shared). By default answers are numbers, such as 1 for a mistake and 0 for
            none, and their means are compared; this takes many rounds at once.
        rounds: of exchanging; the smallest p-value is 1 / (rounds + 1).
        seed: of the exchanges.

    Example:
        >>> randomization_test([1, 1, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 0], rounds=999).p_value < 0.05
        True
        >>> from sttau.calibration import brier_score
        >>> p = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> randomization_test(p, p, [0, 1], metric=brier_score, rounds=99)
        Comparison(difference=0.0, p_value=1.0, interval=None)
    """
    first, second, rest = _paired(a, b, shared, metric)
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    difference, least = _difference(metric, first, second, rest)
    if metric is None:
        apart = (first - second)[first != second].cpu() / len(first)  # equal answers exchanged change nothing
        others = (signs @ apart for signs in draw_signs(len(apart), rounds, seed))
    else:
        others = (_exchange(metric, first, second, rest, signs < 0) for signs in draw_signs(len(first), rounds, seed))
    count = sum(int((other.abs() >= least).sum()) for other in others)
    return Comparison(difference, (count + 1) / (rounds + 1))


def paired_bootstrap(
    a: Any,
    b: Any,
    *shared: Any,
    metric: Callable[..., float] | None = None,
    resamples: int = 9999,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Interval and test for the difference of two methods from resampled predictions (Efron & Tibshirani, 1993, §16).

    Rows are drawn with replacement, the same for both. The interval cuts the resampled differences at both ends; p is
    the share of those whose distance from the real difference is at least the real difference's from 0. Prefer
    :func:`randomization_test` for p alone: it is exact for any number of predictions, this one for many.

    Args:
        a: answers of the first method: one row a prediction.
        b: answers of the second on the same data, in the same order.
        *shared: what belongs to both, such as labels.
        metric: a function of (answers, *shared); the mean of numbers by default.
        resamples: how many times rows are drawn.
        level: of the interval.
        seed: of the draws.

    Example:
        >>> answer = paired_bootstrap([1, 1, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 0], resamples=999)
        >>> answer.difference, answer.interval.low > 0
        (0.75, True)
    """
    first, second, rest = _paired(a, b, shared, metric)
    check_share("level", level)
    difference, least = _difference(metric, first, second, rest)
    values = torch.cat(
        [
            measure_each(metric, [first, *rest], draws) - measure_each(metric, [second, *rest], draws)
            for draws in draw_rows(len(first), resamples, seed)
        ]
    )
    count = int(((values - difference).abs() >= least).sum())
    tail = (1 - level) / 2
    low, high = values.quantile(torch.tensor([tail, 1 - tail], dtype=torch.float64)).tolist()
    return Comparison(difference, (count + 1) / (resamples + 1), Interval(difference, low, high, level))


def _paired(
    a: Any, b: Any, shared: tuple[Any, ...], metric: Callable[..., float] | None
) -> tuple[Tensor, Tensor, list[Tensor]]:
    if metric is None and shared:
        raise ValueError("shared data is given but no metric to use it; pass metric=")
    first, *rest = check_rows((a, *shared), metric)
    second = check_rows((b, *shared), metric)[0]
    if first.shape != second.shape:
        raise ValueError(
            f"a and b must have the same shape, one row for each prediction, got {tuple(first.shape)} and "
            f"{tuple(second.shape)}"
        )
    return first, second.to(first.device), rest


def _difference(
    metric: Callable[..., float] | None, first: Tensor, second: Tensor, rest: list[Tensor]
) -> tuple[float, float]:
    """The difference, and from which size on another one counts as large: rounding must not tell equal ones apart."""
    left, right = measure(metric, [first, *rest]), measure(metric, [second, *rest])
    scale = float(first.abs().mean() + second.abs().mean()) if metric is None else abs(left) + abs(right)
    return left - right, abs(left - right) - 1e-12 * scale


def draw_signs(size: int, rounds: int, seed: int) -> Iterator[Tensor]:
    """(some, size) of -1, exchanged, and 1, left as they are."""
    generator = torch.Generator().manual_seed(seed)
    at_once = max(1, _CHUNK_NUMBERS // max(1, size))
    for start in range(0, rounds, at_once):
        shape = (min(at_once, rounds - start), size)
        yield 1 - 2 * torch.randint(2, shape, generator=generator, dtype=torch.int8).to(torch.float64)


def _exchange(metric: Callable[..., float], first: Tensor, second: Tensor, rest: list[Tensor], swaps: Tensor) -> Tensor:
    """(rounds,) the difference after each round of exchanging rows."""
    values = []
    for swap in swaps.to(first.device):
        mask = swap.reshape(-1, *(1,) * (first.dim() - 1))
        x, y = torch.where(mask, second, first), torch.where(mask, first, second)
        values.append(measure(metric, [x, *rest]) - measure(metric, [y, *rest]))
    return torch.tensor(values, dtype=torch.float64)
