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
        assert torch.equal(inputs, series[first - 5 : first])
        assert torch.equal(targets, series[first : first + 3, 1])


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
        ({"times": HOURS[1:]}, r"times must have shape \(24,\)"),
        ({"times": np.delete(np.append(HOURS, HOURS[-1] + 1), 5)}, "a gap: 2020-01-01T06 follows 2020-01-01T04"),
        ({"times": HOURS[::-1]}, "times must increase"),
        ({"times": np.arange(24) ** 2.0}, r"a gap: 4.0 follows 1.0, but the first step is 1.0"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_the_remedy(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"series": np.zeros(24), "length": 3, "times": HOURS}
    with pytest.raises(ValueError, match=message):
        windows(**(given | change))
