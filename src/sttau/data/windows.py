"""Windows of a long series, each with the values that follow it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sttau.checks import as_numbers


class Windows(NamedTuple):
    """Windows of one series, in the order of time."""

    inputs: Tensor  # (windows, length, features), a view of the series
    targets: Tensor  # (windows, horizon): the values that follow
    first: Tensor  # (windows,): position of the first of these in the series


def windows(series: Any, length: int, horizon: int = 1, *, target: int = 0, times: Any = None) -> Windows:
    """Cut a series into all windows of ``length`` steps, each with the ``horizon`` values that follow it.

    Args:
        series: (time,) or (time, features) floats, one row per step, without gaps.
        length: Steps per window.
        horizon: Values to predict after each window.
        target: Index of the feature that is predicted.
        times: (time,) time of each row, dates or numbers; they must be evenly spaced.

    Example:
        >>> cut = windows([1.0, 2.0, 3.0, 4.0, 5.0], length=2, horizon=2)
        >>> cut.inputs[:, :, 0].tolist(), cut.targets.tolist(), cut.first.tolist()
        ([[1.0, 2.0], [2.0, 3.0]], [[3.0, 4.0], [4.0, 5.0]], [2, 3])
    """
    x = as_numbers("series", series)
    if x.dim() == 1:
        x = x[:, None]
    if x.dim() != 2 or x.numel() == 0:
        raise ValueError(f"series must be (time,) or (time, features) and not empty, got shape {tuple(x.shape)}")
    for name, number in (("length", length), ("horizon", horizon)):
        if number < 1:
            raise ValueError(f"{name} must be at least 1 step, got {number}")
    if not -x.shape[1] <= target < x.shape[1]:
        raise ValueError(f"target must name one of the {x.shape[1]} features, got {target}")
    if length + horizon > len(x):
        raise ValueError(
            f"a window of {length} steps and the {horizon} that follow do not fit into a series of {len(x)}; "
            "choose a smaller length or horizon, or a longer series"
        )
    bad = (~x.isfinite()).any(-1)
    if bool(bad.any()):
        raise ValueError(
            f"series holds NaN or infinity, first at step {int(bad.nonzero()[0])}; fill what is missing, or cut the "
            "series there and take the windows of each part"
        )
    if times is not None:
        _check_times(times, len(x))
    count = len(x) - length - horizon + 1
    return Windows(
        inputs=x[: len(x) - horizon].unfold(0, length, 1).transpose(1, 2),
        targets=x[length:, target].unfold(0, horizon, 1),
        first=torch.arange(length, length + count),
    )


def _check_times(times: Any, rows: int) -> None:
    """Raise unless there is one time per row, in even steps."""
    moments = np.asarray(times)
    if moments.shape != (rows,):
        raise ValueError(f"times must have shape ({rows},), one for each step of the series, got {moments.shape}")
    steps = np.diff(moments)
    regular = np.isclose(steps, steps[0]) if np.issubdtype(steps.dtype, np.floating) else steps == steps[0]
    if not (steps[0] > np.zeros_like(steps[0])):
        raise ValueError(f"times must increase, but {moments[1]} follows {moments[0]}; sort the series first")
    if not regular.all():
        place = int(np.flatnonzero(~regular)[0])
        raise ValueError(
            f"times have a gap: {moments[place + 1]} follows {moments[place]}, but the first step is {steps[0]}; fill "
            "the steps between, or cut the series there and take the windows of each part"
        )
