from __future__ import annotations

import math
from datetime import datetime

import pytest
import torch

from sttau_reproduction.power.data import read_calendar, read_hours, to_log_scale, to_power

pytestmark = pytest.mark.usefixtures("series")


def test_what_is_read_last_is_the_power_of_the_hour_before() -> None:
    hours = read_hours("test", history=3, columns=7, calendar=False)
    last = to_power(hours.inputs[torch.arange(len(hours.power)), hours.lengths - 1, 0].double())
    torch.testing.assert_close(last[1:], hours.power[:-1], rtol=1e-5, atol=0)
    torch.testing.assert_close(to_power(to_log_scale(hours.power)), hours.power)


def test_the_calendar_is_that_of_the_hour_that_is_read_next() -> None:
    plain, hours = (read_hours("test", history=3, columns=1, calendar=calendar) for calendar in (False, True))
    assert torch.equal(hours.inputs[..., :1], plain.inputs)
    for row in range(0, len(hours.power), 11):
        when = hours.times[row].astype(datetime)
        day, weekend = 2 * math.pi * when.hour / 24, float(when.weekday() >= 5)
        found = hours.inputs[row, hours.lengths[row] - 1, 1:]
        assert found[:3].tolist() == pytest.approx([math.sin(day), math.cos(day), weekend], abs=1e-6)
    before = read_calendar(torch.from_numpy(hours.times.astype("int64")) - 1)
    torch.testing.assert_close(hours.inputs[:, 1, 1:], before)  # a step earlier, an hour earlier


def test_the_last_training_hours_are_kept() -> None:
    every, few = (read_hours("train", 1, 7, False, rows) for rows in (None, 50))
    assert torch.equal(few.power, every.power[-50:])
    assert few.times.tolist() == every.times[-50:].tolist()
