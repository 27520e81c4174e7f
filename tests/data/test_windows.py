from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sttau.data import load, windows


def test_every_window_is_followed_by_its_targets() -> None:
    series = torch.arange(40.0).reshape(20, 2)
    cut = windows(series, length=5, horizon=3, target=1)
    assert (cut.inputs.shape, cut.targets.shape) == ((13, 5, 2), (13, 3))
    for inputs, targets, first in zip(cut.inputs, cut.targets, cut.first.tolist(), strict=True):
        assert torch.equal(inputs, series[first - 5 : first].flip(1))  # the target first
        assert torch.equal(targets, series[first : first + 3, 1])
    assert cut.history is not None
    assert torch.equal(cut.history[0], series[-5:].flip(1))
    assert torch.equal(windows(series, length=5, target=-1).inputs, windows(series, length=5, target=1).inputs)


def test_what_is_known_in_advance_is_read_one_step_ahead() -> None:
    series, known = torch.arange(10.0), 100 + torch.arange(12.0)
    cut = windows(series, length=4, known=known)
    assert torch.equal(cut.inputs[..., 0], windows(series, length=4).inputs[..., 0])
    assert torch.equal(cut.inputs[..., 1], cut.inputs[..., 0] + 101)
    assert torch.equal(cut.targets, windows(series, length=4).targets)
    assert cut.history is not None
    assert torch.equal(cut.history[0, :, 1], cut.history[0, :, 0] + 101)
    assert cut.history[0, -1].tolist() == [9.0, 110.0]
    past = windows(series, length=4, known=known[:10])
    assert torch.equal(past.inputs, cut.inputs)
    assert past.history is None  # the step after the series is not known


def test_a_series_that_just_fits_gives_one_window() -> None:
    cut = windows([1, 2, 3], length=2)
    assert (cut.inputs.tolist(), cut.targets.tolist()) == ([[[1.0], [2.0]]], [[3.0]])


def test_household_power_is_made_of_the_same_windows(files: Any) -> None:
    hours = load("household_power", "test")
    series = torch.cat([hours.inputs[:, 0, 0], hours.labels[-1:]])
    times = np.array(hours.ids, "datetime64[h]") - 1
    cut = windows(series, 24, times=np.append(times, times[-1] + 1))
    assert torch.equal(cut.inputs[100], load("household_power", "test", history=24).inputs[123, :, :1])
    assert torch.equal(cut.targets[:, 0], hours.labels[23:])


HOURS = np.arange("2020-01-01", "2020-01-02", dtype="datetime64[h]")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": 0}, "length must be at least 1 step, got 0"),
        ({"horizon": 0}, "horizon must be at least 1 step, got 0"),
        ({"length": 24}, "a window of 24 steps and the 1 that follow do not fit into a series of 24; choose a smaller"),
        ({"target": 1}, "target must name one of the 1 features, got 1"),
        ({"series": np.zeros((2, 2, 2))}, "series must be"),
        ({"series": np.where(np.arange(24) == 7, np.nan, 0.0)}, "NaN or infinity, first at step 7; fill what is"),
        ({"known": np.zeros(23)}, "known must have a row for each of the 24 steps of the series, got 23"),
        ({"known": np.full(24, np.nan)}, "known holds NaN"),
        ({"times": HOURS[1:]}, r"times must have shape \(24,\)"),
        ({"times": np.delete(np.append(HOURS, HOURS[-1] + 1), 5)}, "a gap: 2020-01-01T06 follows 2020-01-01T04"),
        ({"times": HOURS[::-1]}, "times must increase"),
        ({"times": np.append(HOURS[:-1], HOURS[-2])}, "times must increase, but 2020-01-01T22 follows 2020-01-01T22"),
        ({"times": np.append(HOURS[:-1], np.datetime64("NaT"))}, "times hold NaT at step 23"),
        ({"times": ["day"] * 24}, "times must be numbers or dates"),
        ({"times": np.arange(24) ** 2.0}, r"a gap: 4.0 follows 1.0, but the first step is 1.0"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_the_remedy(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"series": np.zeros(24), "length": 3, "times": HOURS}
    with pytest.raises(ValueError, match=message):
        windows(**(given | change))


MONTHS = np.arange("2019-01", "2022-01", dtype="datetime64[M]")
STARTS, ENDS = MONTHS.astype("datetime64[D]"), (MONTHS + 1).astype("datetime64[D]") - 1
WEEKDAYS = np.busday_offset(np.datetime64("2024-02-26"), np.arange(36), "forward")


@pytest.mark.parametrize(
    "times",
    [
        STARTS,
        ENDS,
        STARTS + 14,
        np.minimum(STARTS + 29, ENDS),  # the 30th, in February the last
        np.busday_offset(ENDS, 0, "backward"),
        np.busday_offset(STARTS, 0, "forward"),
        np.arange("1990-01", "2026-01", 12, dtype="datetime64[M]").astype("datetime64[D]"),  # years
        np.arange("1990-01", "1999-01", 3, dtype="datetime64[M]").astype("datetime64[ns]"),  # quarters
        WEEKDAYS,
        WEEKDAYS[::2],
        WEEKDAYS.astype("datetime64[h]") + 17,
        [str(day) for day in ENDS],
        ENDS.tolist(),  # datetime.date
    ],
    ids=str,
)
def test_months_and_business_days_are_even(times: Any) -> None:
    assert len(windows(np.zeros(len(times)), 3, times=times).inputs) == len(times) - 3


@pytest.mark.parametrize(
    "times",
    [
        np.delete(STARTS, 7),
        np.delete(ENDS, 7),
        np.append(STARTS[:-1], STARTS[-1] + 1),
        np.delete(WEEKDAYS, 7),
        np.append(WEEKDAYS, np.datetime64("2024-04-20")),  # a Saturday
        np.append(WEEKDAYS.astype("datetime64[h]"), np.datetime64("2024-04-16T05")),
    ],
    ids=str,
)
def test_a_gap_of_the_calendar_is_found(times: Any) -> None:
    with pytest.raises(ValueError, match="times have a gap"):
        windows(np.zeros(len(times)), 3, times=times)
