"""Windows of a long series, each with the values that follow it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sttau.checks import as_numbers
from sttau.errors import DataError


class Windows(NamedTuple):
    """Windows of one series, in the order of time."""

    inputs: Tensor  # (windows, length, features), the predicted feature first, the known ones last
    targets: Tensor  # (windows, horizon): the values that follow
    first: Tensor  # (windows,): position of the first of these in the series
    history: Tensor | None  # (1, length, features): the end of the series, for ``forecast``; None where it is not known


def windows(
    series: Any, length: int, horizon: int = 1, *, target: int = 0, known: Any = None, times: Any = None
) -> Windows:
    """Cut a series into all windows of ``length`` steps, each with the ``horizon`` values that follow it.

    The predicted feature is the first of the inputs, where ``forecast`` writes its predictions; the others keep their
    order. Features that are known in advance come last and are read one step ahead: a row holds the values of its own
    time and what is known about the next, so that a promotion is read before the sales it changes.

    Args:
        series: (time,) or (time, features) floats, one row per step, without gaps.
        length: Steps per window.
        horizon: Values to predict after each window.
        target: Index of the feature that is predicted.
        known: (time, features) features that are known in advance, such as the hour of the day; row t belongs to row t
            of the series. Further rows are of the steps after the series; without any, there is no ``history``.
        times: (time,) time of each row, numbers or dates; evenly spaced, or all months, quarters or business days.

    Example:
        >>> cut = windows([1.0, 2.0, 3.0, 4.0, 5.0], length=2, horizon=2)
        >>> cut.inputs[:, :, 0].tolist(), cut.targets.tolist(), cut.first.tolist()
        ([[1.0, 2.0], [2.0, 3.0]], [[3.0, 4.0], [4.0, 5.0]], [2, 3])
        >>> cut = windows([1.0, 2.0, 3.0], length=2, known=[0.1, 0.2, 0.3, 0.4])
        >>> cut.inputs.tolist(), cut.history.tolist()
        ([[[1.0, 0.2], [2.0, 0.3]]], [[[2.0, 0.3], [3.0, 0.4]]])
    """
    x = _as_series("series", series)
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
    if times is not None:
        _check_times(times, len(x))
    place = target % x.shape[1]
    y = x[:, place]
    rows = x if place == 0 else x[:, [place, *(other for other in range(x.shape[1]) if other != place)]]
    ends = True  # whether the last row is complete
    if known is not None:
        ahead = _as_series("known", known).to(x)
        if len(ahead) < len(x):
            raise ValueError(f"known must have a row for each of the {len(x)} steps of the series, got {len(ahead)}")
        ends = len(ahead) > len(x)
        ahead = ahead[1 : len(x) + 1]
        rows = torch.cat([rows[: len(ahead)], ahead], dim=1)
    return Windows(
        inputs=rows[: len(x) - horizon].unfold(0, length, 1).transpose(1, 2),
        targets=y[length:].unfold(0, horizon, 1),
        first=torch.arange(length, len(x) - horizon + 1),
        history=rows[None, -length:] if ends else None,
    )


def _as_series(name: str, values: Any) -> Tensor:
    """Return (time, features) finite floats."""
    x = as_numbers(name, values)
    if x.dim() == 1:
        x = x[:, None]
    if x.dim() != 2 or x.numel() == 0:
        raise ValueError(f"{name} must be (time,) or (time, features) and not empty, got shape {tuple(x.shape)}")
    bad = (~x.isfinite()).any(-1)
    if bool(bad.any()):
        raise ValueError(
            f"{name} holds NaN or infinity, first at step {int(bad.nonzero()[0])}; fill what is missing, or cut the "
            "series there and take the windows of each part"
        )
    return x


# --------------------------------------------------------------------------------------------------------------- times


def _check_times(times: Any, rows: int) -> None:
    """Raise unless there is one time per row, in even steps of the clock or of the calendar."""
    moments = _as_moments(times)
    if moments.shape != (rows,):
        raise ValueError(f"times must have shape ({rows},), one for each step of the series, got {moments.shape}")
    steps = np.diff(moments)
    late = np.flatnonzero(~(steps > np.zeros_like(steps)))
    if late.size:
        place = int(late[0])
        raise ValueError(
            f"times must increase, but {moments[place + 1]} follows {moments[place]}; sort the series first, and keep "
            "one row per time"
        )
    regular = np.isclose(steps, steps[0]) if np.issubdtype(steps.dtype, np.floating) else steps == steps[0]
    if regular.all() or (moments.dtype.kind == "M" and _follows_calendar(moments)):
        return
    place = int(np.flatnonzero(~regular)[0])
    raise ValueError(
        f"times have a gap: {moments[place + 1]} follows {moments[place]}, but the first step is {steps[0]}, and they "
        "are no months, quarters, years or business days either; fill the steps between, or cut the series there and "
        "take the windows of each part"
    )


def _as_moments(times: Any) -> NDArray[Any]:
    """Return numbers as they are, and dates of any form as datetime64."""
    moments = np.asarray(times)
    if moments.dtype.kind in "iufM":
        if moments.dtype.kind == "u":
            return moments.astype(np.int64)
        bad = np.isnat(moments) if moments.dtype.kind == "M" else ~np.isfinite(moments)
        if bad.any():
            raise ValueError(
                f"times hold {moments[bad][0]} at step {int(np.flatnonzero(bad)[0])}; fill what is missing"
            )
        return moments
    try:
        return moments.astype("datetime64[us]")
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"times must be numbers or dates, for instance 2024-01-31, got {moments.dtype}: {error}"
        ) from error


def _follows_calendar(moments: NDArray[Any]) -> bool:
    """Whether the dates are evenly spaced in months or in business days, all at the same time of the day."""
    days = moments.astype("datetime64[D]")
    if len(np.unique(moments - days)) > 1:
        return False
    return _are_months(days) or _are_business_days(days)


def _are_months(days: NDArray[Any]) -> bool:
    """Whether there are equally many months between the dates, which are on one day of the month.

    That is a day such as the 15th; the 29th to 31st, or the last day of shorter months; or the first or the last
    business day.
    """
    months = days.astype("datetime64[M]")
    spans = np.diff(months).astype(np.int64)
    if not (spans == spans[0]).all() or spans[0] < 1:
        return False
    begin, end = months.astype("datetime64[D]"), (months + 1).astype("datetime64[D]") - 1
    largest = (days - begin).max()
    grids = (
        np.minimum(begin + largest, end),
        np.busday_offset(begin, 0, "forward"),
        np.busday_offset(end, 0, "backward"),
    )
    return any(bool((days == grid).all()) for grid in grids)


def _are_business_days(days: NDArray[Any]) -> bool:
    """Whether all dates are from Monday to Friday, with equally many business days between them."""
    spans = np.busday_count(days[:-1], days[1:])
    return bool(np.is_busday(days).all() and (spans == spans[0]).all())
