"""Bootstrap confidence intervals of metrics over test examples (Efron & Tibshirani, 1993)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sttau.checks import as_integer, check_level, check_probabilities
from sttau.metrics.calibration_error import assign_bins, bin_edges, binned_errors
from sttau.metrics.inputs import check_classification
from sttau.metrics.registry import COLUMNS
from sttau.metrics.rows import Rows
from sttau.metrics.statistics.evaluation import MetricFunction, check_rows, evaluate, evaluate_draws
from sttau.metrics.statistics.resampling import draw_counts, draw_rows, in_pieces

Method = Literal["percentile", "bca"]


@dataclass(frozen=True)
class Interval:
    """A value and the bounds of its confidence interval."""

    value: float
    low: float
    high: float
    level: float


def bootstrap_interval(
    *data: Any,
    metric: MetricFunction = None,
    resamples: int = 1000,
    level: float = 0.95,
    method: Method = "percentile",
    seed: int = 0,
) -> Interval:
    """Confidence interval of a metric over a finite set of predictions.

    Rows are drawn with replacement and the metric is evaluated on each resample. The interval describes the variation
    over test data, not over training runs. Memory does not grow with ``resamples``.

    Args:
        *data: Tensors with one row per prediction, passed to the metric together.
        metric: Function of the data, such as :func:`~sttau.metrics.calibration_error`. By default the mean of one
            tensor with one value per prediction, which is computed for many resamples at once.
        resamples: Number of resamples.
        level: Confidence level.
        method: ``percentile`` takes quantiles of the resampled values; ``bca`` also corrects for bias and skewness
            (Efron, 1987), which takes one more evaluation per prediction. Neither corrects the upward bias of ECE and
            MCE on finite samples: their intervals lie above 0 even for a calibrated model.
        seed: Seed of the draws.

    Example:
        >>> p, labels = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]).repeat(100, 1), torch.tensor([0, 1, 1] * 100)
        >>> from sttau.metrics import brier_score
        >>> interval = bootstrap_interval(p, labels, metric=brier_score)
        >>> round(interval.value, 3), interval.low < interval.value < interval.high
        (0.493, True)
    """
    rows = check_rows(data, metric)
    check_level("level", level, 0.95)
    if method not in ("percentile", "bca"):
        raise ValueError(f"method must be 'percentile' or 'bca', got {method!r}")
    value = evaluate(metric, rows)
    values = torch.cat([evaluate_draws(metric, rows, draws) for draws in draw_rows(len(rows[0]), resamples, seed)])
    shares = tails(level)
    if method == "bca":
        shares = _correct(shares, value, values, _leave_one_out(metric, rows))
    low, high = values.quantile(shares).tolist()
    return Interval(value, low, high, level)


def calibration_error_intervals(
    probabilities: Any, labels: Any, bins: int = 10, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """Percentile intervals of ECE and MCE.

    They equal those of :func:`bootstrap_interval` with :func:`~sttau.metrics.calibration_error` and the same seed, up
    to rounding, and are computed many times faster from sums over bins.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: Number of bins of equal width over the confidence of the predicted class.
        resamples: Number of resamples.
        level: Confidence level.
        seed: Seed of the draws.

    Returns:
        The intervals, fractions, by norm: ``expected`` (ECE) and ``maximum`` (MCE).

    Example:
        >>> p, labels = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]).repeat(100, 1), torch.tensor([0, 1, 1] * 100)
        >>> interval = calibration_error_intervals(p, labels)["expected"]
        >>> round(interval.value, 3), interval.low < interval.value < interval.high
        (0.4, True)
    """
    p, y = (part.cpu() for part in check_classification(probabilities, labels))
    check_level("level", level, 0.95)
    confidence, predicted = p.max(dim=-1)
    number = assign_bins(confidence, bin_edges(confidence, bins, "width"))
    gap = (predicted == y).to(torch.float64) - confidence.to(torch.float64)

    def errors(draws: Tensor) -> Tensor:
        return binned_errors(number[draws], gap[draws], bins)

    values = torch.cat([errors(draws) for draws in draw_rows(len(p), resamples, seed)], dim=1)
    return _by_norm(errors(torch.arange(len(p))[None])[:, 0], values, level)


def calibration_error_by_chance(
    probabilities: Any, bins: int = 10, resamples: int = 200, level: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """ECE and MCE that a calibrated model would have with these probabilities, on the same number of predictions.

    On a finite sample, accuracy never equals confidence exactly, and a bin with few predictions may deviate strongly.
    Measured values that do not exceed these are no evidence of miscalibration. Outcomes are drawn from the confidences
    (consistency resampling, Bröcker & Smith, 2007).

    Args:
        probabilities: (predictions, classes).
        bins: Number of bins of equal width over the confidence of the predicted class.
        resamples: Number of times that outcomes are drawn.
        level: Level of the interval.
        seed: Seed of the draws.

    Returns:
        Mean and interval, fractions, by norm: ``expected`` (ECE) and ``maximum`` (MCE).

    Example:
        >>> p = torch.tensor([[0.9, 0.1], [0.55, 0.45]])
        >>> for uncertain in (1000, 3):
        ...     some = p.repeat_interleave(torch.tensor([1000, uncertain]), dim=0)
        ...     print(round(calibration_error_by_chance(some)["maximum"].value, 2))
        0.01
        0.26
    """
    p = check_probabilities("probabilities", probabilities).cpu()
    check_level("level", level, 0.95)
    resamples = as_integer("resamples", resamples, 1)
    confidence = p.amax(dim=-1)
    number = assign_bins(confidence, bin_edges(confidence, bins, "width"))
    confidence = confidence.to(torch.float64)
    generator = torch.Generator().manual_seed(seed)
    values = []
    for _ in range(resamples):  # one at a time, so that the draws do not depend on a chunk size
        right = torch.rand(len(p), generator=generator, dtype=torch.float64) < confidence
        values.append(binned_errors(number[None], (right.to(torch.float64) - confidence)[None], bins))
    found = torch.cat(values, dim=1)
    return _by_norm(found.mean(1), found, level)


def metric_intervals(
    methods: Mapping[str, Sequence[Rows]], examples: int, resamples: int, level: float, seed: int
) -> dict[tuple[str, str], Interval]:
    """Percentile intervals of the mean over training seeds, by method and table column.

    Args:
        methods: Rows of every training seed, by method; see :func:`sttau.metrics.rows.metric_rows`.
        examples: Number of in-distribution test examples; rows of detection continue with OOD examples.
        resamples: Number of resamples, which are the same for all methods and training seeds.
        level: Confidence level.
        seed: Seed of the draws.
    """
    found: dict[tuple[str, str], Interval] = {}
    for names, sizes in row_groups(next(iter(methods.values()))[0], examples):
        weighted = {
            (method, name): [COLUMNS[name].weighted(run[name]) for run in runs]
            for method, runs in methods.items()
            for name in names
        }
        values: dict[tuple[str, str], list[Tensor]] = {key: [] for key in weighted}
        for weights in in_pieces(draw_counts(sizes, resamples, seed)):
            for key, runs in weighted.items():
                values[key].append(sum((value(weights) for value in runs), torch.zeros(())) / len(runs))
        ones = torch.ones(1, sum(sizes), dtype=torch.float64)
        for key, runs in weighted.items():
            mean = sum(float(value(ones)) for value in runs) / len(runs)
            low, high = torch.cat(values[key]).quantile(tails(level)).tolist()
            found[key] = Interval(mean, low, high, level)
    return found


def row_groups(rows: Rows, examples: int) -> list[tuple[list[str], list[int]]]:
    """Return the columns that share draws, with the numbers of rows that are drawn separately."""
    ood = {name: len(part) - examples for name, part in rows.items()}
    groups = [([name for name in rows if ood[name] == 0], [examples])]
    groups += [([name for name in rows if ood[name] == count], [examples, count]) for count in {*ood.values()} - {0}]
    return [(names, sizes) for names, sizes in groups if names]


def tails(level: float) -> Tensor:
    """Return the two probabilities at which a central interval is cut."""
    tail = (1 - level) / 2
    return torch.tensor([tail, 1 - tail], dtype=torch.float64)


def _by_norm(middle: Tensor, values: Tensor, level: float) -> dict[str, Interval]:
    low, high = values.quantile(tails(level), dim=1).tolist()
    norms = ("expected", "maximum")
    return {norm: Interval(float(middle[row]), low[row], high[row], level) for row, norm in enumerate(norms)}


def _leave_one_out(metric: MetricFunction, rows: list[Tensor]) -> Tensor:
    """Return (predictions,) the metric without each prediction (jackknife)."""
    size = len(rows[0])
    if size < 2:
        raise ValueError("method='bca' needs at least 2 predictions; use method='percentile'")
    if metric is None:
        return ((rows[0].sum() - rows[0]) / (size - 1)).cpu()
    return torch.tensor(
        [evaluate(metric, [torch.cat([part[:number], part[number + 1 :]]) for part in rows]) for number in range(size)],
        dtype=torch.float64,
    )


def _correct(shares: Tensor, value: float, values: Tensor, left_out: Tensor) -> Tensor:
    """Adjust the probabilities at which the resampled values are cut (Efron, 1987, Eq. 2.3)."""
    below = ((values < value).sum() + 0.5 * (values == value).sum()) / len(values)
    half = 0.5 / len(values)
    bias = torch.special.ndtri(below.to(torch.float64).clamp(half, 1 - half))
    apart = left_out.mean() - left_out
    spread = apart.square().sum()
    skew = (apart**3).sum() / (6 * spread**1.5) if spread > 0 else torch.zeros_like(spread)
    moved = bias + torch.special.ndtri(shares)
    corrected: Tensor = torch.special.ndtr(bias + moved / (1 - skew * moved))
    return corrected
