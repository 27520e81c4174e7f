"""How sure is a metric itself? Bootstrap intervals over predictions (Efron & Tibshirani, 1993)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sttau.calibration.metrics import bin_edges, sort_into
from sttau.checks import as_numbers, as_tensor, check_labels, check_probabilities

Method = Literal["percentile", "bca"]

_CHUNK_NUMBERS = 1 << 22  # about how many numbers are drawn at once


@dataclass(frozen=True)
class Interval:
    """A value and the bounds of its confidence interval."""

    value: float
    low: float
    high: float
    level: float


def bootstrap_interval(
    *data: Any,
    metric: Callable[..., float] | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    method: Method = "percentile",
    seed: int = 0,
) -> Interval:
    """Confidence interval of a metric over a finite set of predictions.

    Rows are drawn with replacement and the metric is taken again. That tells how much it would vary with other test
    data, not with other training runs. Memory does not grow with ``resamples``.

    Args:
        *data: tensors whose first dimension runs over predictions, handed to the metric together.
        metric: a function of the data, such as :func:`~sttau.calibration.calibration_error`. By default the mean of one
            tensor with a number for each prediction, which is computed for many resamples at once.
        resamples: how many times the metric is taken.
        level: of confidence.
        method: ``percentile`` cuts the resampled values at both ends; ``bca`` also corrects for bias and skewness
            (Efron, 1987), for which the metric is taken once more for each prediction left out. Neither undoes that ECE
            and MCE are larger on any sample than in truth: their intervals lie above 0 even for a calibrated model.
        seed: of the draws.

    Example:
        >>> p, labels = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]).repeat(100, 1), torch.tensor([0, 1, 1] * 100)
        >>> from sttau.calibration import brier_score
        >>> interval = bootstrap_interval(p, labels, metric=brier_score)
        >>> round(interval.value, 3), interval.low < interval.value < interval.high
        (0.493, True)
    """
    rows = check_rows(data, metric)
    check_share("level", level)
    if method not in ("percentile", "bca"):
        raise ValueError(f"method must be 'percentile' or 'bca', got {method!r}")
    value = measure(metric, rows)
    values = torch.cat([measure_each(metric, rows, draws) for draws in draw_rows(len(rows[0]), resamples, seed)])
    tail = (1 - level) / 2
    shares = torch.tensor([tail, 1 - tail], dtype=torch.float64)
    if method == "bca":
        shares = _correct(shares, value, values, _leave_out(metric, rows))
    low, high = values.quantile(shares).tolist()
    return Interval(value, low, high, level)


def calibration_error_intervals(
    probabilities: Any, labels: Any, bins: int = 10, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """Percentile intervals of ECE and MCE at once.

    They are those of :func:`bootstrap_interval` with :func:`~sttau.calibration.calibration_error` and the same seed, up
    to rounding, many times faster: of a resample only the sums over each bin are needed.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        bins: of equal width, over the confidence of the predicted class.
        resamples: how many times both are taken.
        level: of confidence.
        seed: of the draws.

    Returns:
        The intervals, fractions, by norm: ``expected`` (ECE) and ``maximum`` (MCE).

    Example:
        >>> p, labels = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]).repeat(100, 1), torch.tensor([0, 1, 1] * 100)
        >>> interval = calibration_error_intervals(p, labels)["expected"]
        >>> round(interval.value, 3), interval.low < interval.value < interval.high
        (0.4, True)
    """
    p = check_probabilities("probabilities", probabilities).cpu()
    y = check_labels(as_tensor("labels", labels).cpu(), *p.shape)
    check_share("level", level)
    confidence, label = p.max(dim=-1)
    number = sort_into(confidence, bin_edges(confidence, bins, "width"))
    gap = (label == y).to(torch.float64) - confidence.to(torch.float64)

    def measures(draws: Tensor) -> Tensor:
        return _errors_of_bins(number[draws], gap[draws], bins)

    values = torch.cat([measures(draws) for draws in draw_rows(len(p), resamples, seed)], dim=1)
    return _by_norm(measures(torch.arange(len(p))[None])[:, 0], values, level)


def calibration_error_by_chance(
    probabilities: Any, bins: int = 10, resamples: int = 200, level: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """ECE and MCE that a calibrated model would have, with these probabilities on so many predictions.

    A finite sample is never exactly as accurate as it is confident, and a bin with few predictions may be far from it:
    what is not above these numbers is no evidence of miscalibration. Outcomes are drawn from the confidences themselves
    (consistency resampling, Bröcker & Smith, 2007).

    Args:
        probabilities: (predictions, classes).
        bins: of equal width, over the confidence of the predicted class.
        resamples: how many times outcomes are drawn.
        level: of the interval.
        seed: of the draws.

    Returns:
        Mean and interval, fractions, by norm: ``expected`` (ECE) and ``maximum`` (MCE).

    Example:
        >>> p = torch.tensor([[0.9, 0.1], [0.55, 0.45]])
        >>> for unsure in (1000, 3):
        ...     some = p.repeat_interleave(torch.tensor([1000, unsure]), dim=0)
        ...     print(round(calibration_error_by_chance(some)["maximum"].value, 2))
        0.01
        0.26
    """
    p = check_probabilities("probabilities", probabilities).cpu()
    check_share("level", level)
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    confidence = p.amax(dim=-1)
    number = sort_into(confidence, bin_edges(confidence, bins, "width"))
    confidence = confidence.to(torch.float64)
    generator = torch.Generator().manual_seed(seed)
    values = []
    for _ in range(resamples):  # one by one: the draws do not depend on how many there is room for
        right = torch.rand(len(p), generator=generator, dtype=torch.float64) < confidence
        values.append(_errors_of_bins(number[None], (right.to(torch.float64) - confidence)[None], bins))
    found = torch.cat(values, dim=1)
    return _by_norm(found.mean(1), found, level)


def _errors_of_bins(number: Tensor, gap: Tensor, bins: int) -> Tensor:
    """(2, draws) ECE and MCE of (draws, predictions): the bin of each, and how far it was from its confidence."""
    apart = torch.zeros(len(gap), bins, dtype=torch.float64).scatter_add_(1, number, gap).abs()
    count = torch.zeros_like(apart).scatter_add_(1, number, torch.ones_like(gap))
    return torch.stack([apart.sum(1) / gap.shape[1], (apart / count.clamp_min(1)).amax(1)])


def _by_norm(middle: Tensor, values: Tensor, level: float) -> dict[str, Interval]:
    tail = (1 - level) / 2
    low, high = values.quantile(torch.tensor([tail, 1 - tail], dtype=torch.float64), dim=1).tolist()
    norms = ("expected", "maximum")
    return {norm: Interval(float(middle[row]), low[row], high[row], level) for row, norm in enumerate(norms)}


def check_rows(data: tuple[Any, ...], metric: Callable[..., float] | None) -> list[Tensor]:
    """Return the data as tensors with equally many rows; one tensor of numbers where there is no metric."""
    rows = [as_tensor(f"data[{number}]", part) for number, part in enumerate(data)]
    rows = [as_numbers("data", part) if row.is_floating_point() else row for row, part in zip(rows, data, strict=True)]
    if not rows or rows[0].dim() == 0 or len(rows[0]) == 0:
        raise ValueError("data must be one or more tensors with a row for each prediction, and not empty")
    for number, part in enumerate(rows):
        if part.dim() == 0 or len(part) != len(rows[0]):
            raise ValueError(
                f"data must have equally many rows: data[0] has {len(rows[0])}, data[{number}] is {tuple(part.shape)}"
            )
    if metric is None:
        if len(rows) > 1 or rows[0].dim() != 1:
            raise ValueError(
                f"without a metric there must be one tensor of shape (predictions,), got {len(rows)} of shapes "
                f"{[tuple(part.shape) for part in rows]}; pass metric="
            )
        rows = [rows[0].to(torch.float64)]
        if not bool(rows[0].isfinite().all()):
            raise ValueError("data holds NaN or infinity; every prediction needs a number")
    return [part.to(rows[0].device) for part in rows]


def check_share(name: str, value: float) -> None:
    """Raise an error unless the value lies strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, for instance 0.95, got {value}")


def measure(metric: Callable[..., float] | None, rows: list[Tensor]) -> float:
    """Take the metric once; refuse a value that is no number."""
    value = float(rows[0].mean() if metric is None else metric(*rows))
    if not abs(value) < float("inf"):
        raise ValueError(f"metric gave {value}; it must be finite on the data and on every resample of it")
    return value


def measure_each(metric: Callable[..., float] | None, rows: list[Tensor], draws: Tensor) -> Tensor:
    """(draws,) the metric on each row of indices."""
    if metric is None:
        return rows[0].cpu()[draws].mean(dim=1)
    device = rows[0].device
    return torch.tensor(
        [measure(metric, [part[index] for part in rows]) for index in draws.to(device)], dtype=torch.float64
    )


def draw_rows(size: int, resamples: int, seed: int) -> Iterator[Tensor]:
    """Draw ``resamples`` times ``size`` row numbers with replacement, a bounded number at once: (some, size)."""
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    generator = torch.Generator().manual_seed(seed)
    at_once = max(1, _CHUNK_NUMBERS // size)
    for first in range(0, resamples, at_once):
        yield torch.randint(size, (min(at_once, resamples - first), size), generator=generator)


def _leave_out(metric: Callable[..., float] | None, rows: list[Tensor]) -> Tensor:
    """(predictions,) the metric without each of them: the jackknife."""
    size = len(rows[0])
    if size < 2:
        raise ValueError("method='bca' needs at least 2 predictions; use method='percentile'")
    if metric is None:
        return ((rows[0].sum() - rows[0]) / (size - 1)).cpu()
    return torch.tensor(
        [measure(metric, [torch.cat([part[:number], part[number + 1 :]]) for part in rows]) for number in range(size)],
        dtype=torch.float64,
    )


def _correct(shares: Tensor, value: float, values: Tensor, left_out: Tensor) -> Tensor:
    """Shift the shares at which the resampled values are cut (Efron, 1987, Eq. 2.3)."""
    below = ((values < value).sum() + 0.5 * (values == value).sum()) / len(values)
    half = 0.5 / len(values)
    bias = torch.special.ndtri(below.to(torch.float64).clamp(half, 1 - half))
    apart = left_out.mean() - left_out
    spread = apart.square().sum()
    skew = (apart**3).sum() / (6 * spread**1.5) if spread > 0 else torch.zeros_like(spread)
    moved = bias + torch.special.ndtri(shares)
    corrected: Tensor = torch.special.ndtr(bias + moved / (1 - skew * moved))
    return corrected
