from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sttau_reproduction.power.evaluation import BINS
from sttau_reproduction.power.figures import bands_figure, draw, errors_figure, pit_figure
from sttau_reproduction.power.shown import reduce_hours
from sttau_reproduction.records import read_records

RESULTS = Path(__file__).parents[2] / "results" / "household-power"


def _hours(name: str, seed: int, setting: str) -> dict[str, Any]:
    flat = [float(seed)] * 168
    return {
        "name": name, "method": name, "seed": seed, "setting": setting, "power": flat, "squared_error": flat,
        "bands": dict.fromkeys(("2.5", "25", "50", "75", "97.5"), flat), "pit": [1.0 + seed] * BINS,
    }  # fmt: skip


def test_figures_show_means_over_runs_and_one_panel_a_method() -> None:
    hours = [
        _hours(name, seed, setting) for name in ("lstm", "st-tau") for seed in (0, 1) for setting in ("paper", "day")
    ]
    errors = errors_figure(hours)
    assert [axes.get_title(loc="left") for axes in errors.axes] == ["LSTM: mean 0.500", "ST-τ LSTM: mean 0.500"]
    assert np.asarray(errors.axes[0].lines[0].get_ydata()).tolist() == [0.5] * 100
    bands = bands_figure(hours)
    assert np.asarray(bands.axes[1].lines[0].get_ydata()).tolist() == [0.0] * 96
    pit = pit_figure(hours, ["day"])
    assert {round(bar.get_height(), 6) for bar in pit.axes[0].patches} == {1.5}  # type: ignore[attr-defined]


def test_the_reduced_hours_are_enough_for_every_figure() -> None:
    hours = [
        _hours(name, seed, setting)
        for name in ("lstm", "st-tau")
        for seed in (0, 1)
        for setting in ("paper", "hour", "day", "paths")
    ]
    assert set(draw([reduce_hours(line) for line in hours])) == {
        "power-errors", "power-day", "power-paths", "power-pit",
    }  # fmt: skip


def test_the_committed_hours_are_those_that_are_drawn() -> None:
    lines = read_records(RESULTS / "hours.jsonl.gz")
    assert len(lines) == 111
    assert all({"setting", "name", "seed"} < set(line) for line in lines if line["setting"] in ("paper", "hour", "day"))
