from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sttau.jobs.results import Result, read_results
from sttau_reproduction.power.tables import (
    bands_figure,
    errors_figure,
    laws_table,
    paper_table,
    paths_table,
    pit_figure,
    tables,
)
from sttau_reproduction.power.work import BINS

ROOT = Path(__file__).parents[2]


def _result(method: str, seed: int, metrics: dict[str, float], **settings: Any) -> Result:
    settings = {"setting": "hour", "head": "law", **settings}
    return Result("household-power", "household_power", method, None, seed, metrics, settings, 1.0)


def test_a_law_is_shown_beside_persistence_with_the_spread_over_seeds() -> None:
    results = [
        _result("persistence", 0, {"mse": 0.4, "crps": 0.3}),
        _result("lstm", 0, {"mse": 0.2, "crps": 0.1, "coverage_95": 94.0}),
        _result("lstm", 1, {"mse": 0.3, "crps": 0.2, "coverage_95": 96.0}),
        _result("st-tau", 0, {"mse": 0.1, "crps": 0.1}, made={"paths": 1}),
        _result("lstm", 0, {"mse": 9.0, "crps": 9.0}, setting="day"),
    ]
    persistence, lstm, alone = laws_table(results, "hour")
    assert (persistence[0], persistence[3], persistence[6]) == ("persistence", "+0 %", "0.3000")
    assert (lstm[0], lstm[1], lstm[2], lstm[3]) == ("LSTM", "2", "0.250", "-38 %")
    assert (lstm[6], lstm[9]) == ("0.1500 ± 0.0707", "95.0")
    assert alone[0] == "ST-τ LSTM, one path"


def test_tables_of_other_settings_have_their_own_columns() -> None:
    metrics = {"mse": 0.25, "crps": 0.2, "epistemic": 0.01, "coverage_95": 3.2, "crps_at_24": 0.4}
    (row,) = paper_table([_result("bayes", 0, metrics, setting="paper", head="mean")])
    assert row == ("Bayes LSTM", "1", "0.2500", "", "0.010", "", "3.2")
    (row,) = paths_table([_result("seasonal, 24 h", 0, metrics, setting="paths")])
    assert (row[0], row[2], row[6]) == ("seasonal, 24 h", "0.200", "0.400")


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


@pytest.mark.parametrize("name", ["paper", "hour", "day", "paths"])
def test_the_page_shows_what_was_measured(name: str) -> None:
    table = tables(read_results(ROOT / "results" / "household-power" / "results.jsonl"))[name]
    assert table in (ROOT / "docs" / "regression.md").read_text("utf-8")
