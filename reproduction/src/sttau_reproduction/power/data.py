"""Hours of household power: inputs with calendar features, and the scales on which networks predict."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sttau.data import load
from sttau.jobs import Cell

CALENDAR = 5  # features


class Hours(NamedTuple):
    """One split: what is read, and the power that is to be predicted, in kW."""

    inputs: Tensor  # (hours, history, features)
    lengths: Tensor
    power: Tensor  # (hours,) float64
    times: np.ndarray[Any, Any]  # of the hours that are predicted


def read_hours(split: str, history: int, columns: int, calendar: bool, rows: int | None = None) -> Hours:
    """Read a split; the first feature is log power, scaled like what networks predict, so that they can continue it.

    Args:
        split: ``train``, ``validation`` or ``test``.
        history: Number of hours that are read.
        columns: Number of columns: all seven, or one for the power alone.
        calendar: Whether to add hour of the day, weekend and time of the year of the hour to come.
        rows: Number of training hours, the last ones; None for all.
    """
    data = load("household_power", split, history=history)
    if rows is not None:
        data = data.select(torch.arange(len(data))[-rows:])
    assert data.label_scale is not None
    assert data.ids is not None
    low, factor = data.label_scale
    inputs = data.inputs[:, :, :columns].clone()
    inputs[:, :, 0] = to_log_scale(low + factor * inputs[:, :, 0].double()).float()
    times = np.array(data.ids, "datetime64[h]")
    if calendar:
        back = data.lengths[:, None] - 1 - torch.arange(inputs.shape[1])
        inputs = torch.cat([inputs, read_calendar(torch.from_numpy(times.astype(np.int64))[:, None] - back)], dim=-1)
    return Hours(inputs, data.lengths, low + factor * data.labels.double(), times)


#: Mean and standard deviation of log kW over the training hours, rounded: the scale on which networks predict.
CENTRE, SCALE = -0.28, 0.88
MEAN, DEVIATION = 1.09, 0.92  # of kW itself, for networks without variance head


def to_log_scale(power: Tensor) -> Tensor:
    """Put kW on the logarithmic scale on which networks predict a distribution."""
    return (power.log() - CENTRE) / SCALE


def to_power(value: Tensor) -> Tensor:
    """Return from that scale to kW."""
    return (CENTRE + SCALE * value).exp()


def read_calendar(hour: Tensor) -> Tensor:
    """(…, 5) features of hours that are counted from 1970: time of day, weekend, time of year.

    Example:
        >>> read_calendar(torch.tensor([0])).tolist()  # a Thursday at midnight
        [[0.0, 1.0, 0.0, 0.0, 1.0]]
    """
    day, year = 2 * math.pi * (hour % 24) / 24, 2 * math.pi * (hour / 24 % 365.2425) / 365.2425
    weekend = (torch.div(hour, 24, rounding_mode="floor") + 3) % 7 >= 5
    return torch.stack([day.sin(), day.cos(), weekend.float(), year.sin(), year.cos()], dim=-1).float()


@cache
def hours(split: str, history: int, columns: int, calendar: bool, rows: int | None) -> Hours:
    """The same, read once; only training hours are cut to ``rows``."""
    return read_hours(split, history, columns, calendar, rows if split == "train" else None)


def split_of(cell: Cell, split: str) -> Hours:
    """A split as the settings of a cell have it."""
    return hours(split, *(cell.settings[name] for name in ("history", "columns", "calendar", "rows")))
