from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch

from sttau.jobs import read_results
from sttau_reproduction.power.data import Hours
from sttau_reproduction.power.declaration import name_of
from sttau_reproduction.power.weeks import Weeks, add_up, is_measured, over_hours, over_weeks, weeks_of
from sttau_reproduction.records import read_records

RESULTS = Path(__file__).parents[2] / "results" / "household-power"
COUNT = 168 * 30


def _test_hours() -> Hours:
    """Thirty weeks that begin on a Monday; the power of the first 120 hours was not measured."""
    power = torch.arange(COUNT).double()
    power[:120] = 1.09
    times = np.datetime64("2010-01-04T00", "h") + np.arange(COUNT)
    return Hours(torch.empty(0), torch.empty(0), power, times)


def _line(losses: torch.Tensor, name: str = "lstm", seed: int = 0) -> dict[str, Any]:
    return {"setting": "hour", "name": name, "seed": seed, "losses": {"crps": losses.tolist()}}


def _weeks(*lines: dict[str, Any]) -> list[Weeks]:
    return list(add_up(lines, _test_hours()))


def _by_week(seed: int = 0) -> torch.Tensor:
    """Losses that differ from week to week, and a little from hour to hour."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(30, generator=generator).repeat_interleave(168) + 0.1 * torch.randn(COUNT, generator=generator)


def test_a_week_begins_on_monday_and_has_168_hours() -> None:
    weeks = weeks_of(_test_hours().times)
    assert torch.equal(weeks - weeks[0], torch.arange(30).repeat_interleave(168))


def test_hours_with_the_same_power_were_not_measured() -> None:
    assert is_measured(_test_hours().power).nonzero()[0] == 120
    assert bool(is_measured(torch.arange(400) // 4).all())


def test_the_mean_over_weeks_is_that_over_hours_and_seeds() -> None:
    first, second = _by_week(0), _by_week(1)
    (line,) = _weeks(_line(first), _line(second, seed=1))
    assert (line["runs"], len(line["week"]), sum(line["hours"])) == (2, 31, COUNT)  # the first week has two entries
    assert over_weeks(line, "crps").value == pytest.approx(float(torch.stack([first, second]).mean()), abs=1e-6)


def test_an_interval_over_weeks_is_wider_where_losses_come_by_week() -> None:
    (line,) = _weeks(_line(_by_week()))
    value, *hours = over_hours(line, "crps")
    _, *weeks = over_weeks(line, "crps")
    assert weeks[0] < hours[0] < value < hours[1] < weeks[1]
    assert (weeks[1] - weeks[0]) / (hours[1] - hours[0]) == pytest.approx(168**0.5, rel=0.2)


def test_a_difference_between_methods_is_paired_by_week() -> None:
    lstm, other = _weeks(_line(_by_week()), _line(_by_week() + 0.25, "st-tau"))
    assert over_weeks(other, "crps", lstm) == pytest.approx((0.25, 0.25, 0.25), abs=1e-6)


def test_hours_without_measurement_can_be_left_out() -> None:
    losses = torch.ones(COUNT)
    losses[:120] = 5
    (line,) = _weeks(_line(losses))
    assert over_weeks(line, "crps").value > 1.05
    assert over_weeks(line, "crps", measured=True) == (1, 1, 1)


@pytest.mark.parametrize(
    ("setting", "name", "other", "metric", "measured", "digits"),
    [
        ("paper", "st-tau", "lstm", "mse", False, ".4f"),
        ("paper", "dropout", "lstm", "mse", False, ".4f"),
        ("hour", "boosted trees", "automaton", "crps", False, "+.4f"),
        ("hour", "boosted trees", "automaton", "crps", True, "+.4f"),
        ("day", "automaton", "lstm", "crps", False, "+.4f"),
        ("day", "automaton", "ensemble", "crps", False, "+.4f"),
    ],
)
def test_differences_in_the_text_are_those_of_the_committed_weeks(
    setting: str, name: str, other: str, metric: str, measured: bool, digits: str
) -> None:
    lines = {(line["setting"], line["name"]): line for line in read_records(RESULTS / "weeks.jsonl.gz")}
    value, low, high = over_weeks(lines[setting, name], metric, lines[setting, other], measured)
    text = (RESULTS.parents[2] / "docs/regression.md").read_text("utf-8")
    assert f"{value:{digits}} [{low:{digits}}, {high:{digits}}]" in " ".join(text.split())


def test_the_committed_weeks_are_those_of_the_committed_results() -> None:
    results = read_results(RESULTS / "results.jsonl.gz")
    lines = read_records(RESULTS / "weeks.jsonl.gz")
    assert (RESULTS / "weeks.jsonl.gz").stat().st_size < 60_000
    assert {sum(line["hours"]) for line in lines} == {7588}
    assert {len(set(line["week"])) for line in lines} == {46}
    for line in lines:
        found = [r.metrics for r in results if (r.settings["setting"], name_of(r)) == (line["setting"], line["name"])]
        assert line["runs"] == len(found)
        for metric in line["sums"]:
            assert over_weeks(line, metric).value == pytest.approx(mean(m[metric] for m in found), abs=2e-6)
    assert len(lines) == len({(r.settings["setting"], name_of(r)) for r in results if r.settings["setting"] != "paths"})
