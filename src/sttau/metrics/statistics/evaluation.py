"""Evaluation of arbitrary metric functions on rows and on resampled rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_numbers, as_tensor

#: Function of tensors with one row per prediction; None for the mean of one tensor.
MetricFunction = Callable[..., float] | None


def check_rows(data: tuple[Any, ...], metric: MetricFunction) -> list[Tensor]:
    """Return the data as tensors with equal numbers of rows; one tensor of shape (predictions,) without a metric."""
    rows = [as_tensor(f"data[{number}]", part) for number, part in enumerate(data)]
    rows = [as_numbers("data", part) if row.is_floating_point() else row for row, part in zip(rows, data, strict=True)]
    if not rows or rows[0].dim() == 0 or len(rows[0]) == 0:
        raise ValueError("data must be one or more tensors with one row per prediction, not empty")
    for number, part in enumerate(rows):
        if part.dim() == 0 or len(part) != len(rows[0]):
            raise ValueError(
                f"data must have equal numbers of rows: data[0] has {len(rows[0])}, data[{number}] is "
                f"{tuple(part.shape)}"
            )
    if metric is None:
        if len(rows) > 1 or rows[0].dim() != 1:
            raise ValueError(
                f"without a metric there must be one tensor of shape (predictions,), got {len(rows)} of shapes "
                f"{[tuple(part.shape) for part in rows]}; pass metric="
            )
        rows = [rows[0].to(torch.float64)]
        if not bool(rows[0].isfinite().all()):
            raise ValueError("data holds NaN or infinity; every prediction needs a finite value")
    return [part.to(rows[0].device) for part in rows]


def evaluate(metric: MetricFunction, rows: list[Tensor]) -> float:
    """Return the metric of the rows; raise an error if it is not finite."""
    value = float(rows[0].mean() if metric is None else metric(*rows))
    if not abs(value) < float("inf"):
        raise ValueError(f"metric returned {value}; it must be finite on the data and on every resample")
    return value


def evaluate_draws(metric: MetricFunction, rows: list[Tensor], draws: Tensor) -> Tensor:
    """Return (draws,) the metric of each row of indices."""
    if metric is None:
        return rows[0].cpu()[draws].mean(dim=1)
    device = rows[0].device
    return torch.tensor(
        [evaluate(metric, [part[index] for part in rows]) for index in draws.to(device)], dtype=torch.float64
    )
