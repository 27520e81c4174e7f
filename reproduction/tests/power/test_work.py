from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sttau.jobs import Outcome, read_results
from sttau_reproduction.cli import app
from sttau_reproduction.power import data
from sttau_reproduction.power import work as power
from sttau_reproduction.power.data import to_power
from sttau_reproduction.power.declaration import AHEAD, METHODS, QUICK, cells
from sttau_reproduction.power.weeks import LOSSES, over_weeks
from sttau_reproduction.power.work import measure
from sttau_reproduction.records import read_records

pytestmark = pytest.mark.usefixtures("series")


def _cell(setting: str, method: str) -> Any:
    return next(cell for cell in cells(QUICK) if (cell.settings["setting"], cell.method) == (setting, method))


@pytest.mark.parametrize("method", [*METHODS, "persistence", "boosted trees"])
@pytest.mark.parametrize("setting", ["hour", "day"])
def test_a_cell_has_the_metrics_of_a_distribution(setting: str, method: str, tmp_path: Path) -> None:
    result = measure(_cell(setting, method), tmp_path, tmp_path / "kept")
    metrics = result.metrics
    assert metrics["width_50"] < metrics["width_80"] < metrics["width_95"]
    assert 0 < metrics["crps"] <= metrics["mae"] + 1e-6
    assert 50 < metrics["coverage_95"] <= 100
    if method in METHODS:
        assert (metrics["epistemic"] > 0) == (method != "lstm")
        assert metrics["aleatoric"] > 0
    assert len(list((tmp_path / "kept").iterdir())) == 1


@pytest.mark.parametrize("method", ["st-tau", "persistence", "seasonal, 24 h"])
def test_paths_are_evaluated_hour_by_hour(method: str, tmp_path: Path) -> None:
    metrics = measure(_cell("paths", method), tmp_path, tmp_path / "kept").metrics
    assert {f"crps_at_{hour}" for hour in AHEAD} <= metrics.keys()


def test_a_longer_history_is_read_where_more_than_one_hour_is(tmp_path: Path) -> None:
    every = list(cells(replace(QUICK, history=48)))
    assert {c.settings["setting"]: c.settings["history"] for c in every} == {
        "paper": 1,
        "hour": 1,
        "day": 48,
        "paths": 48,
    }
    cell = next(c for c in every if c.settings["setting"] == "paths" and c.method == "lstm")
    assert measure(cell, tmp_path, tmp_path / "kept").metrics["crps"] > 0


def test_without_variance_head_only_epistemic_uncertainty_is_left(tmp_path: Path) -> None:
    metrics = measure(_cell("paper", "lstm"), tmp_path, tmp_path / "kept").metrics
    assert (metrics["epistemic"], metrics["width_95"], metrics["coverage_95"]) == (0.0, 0.0, 0.0)
    assert metrics["crps"] == pytest.approx(metrics["mae"], rel=1e-5)


def test_persistence_says_what_was_and_is_calibrated_on_a_steady_series(tmp_path: Path) -> None:
    metrics = measure(_cell("hour", "persistence"), tmp_path, tmp_path / "kept").metrics
    test = data.hours("test", 1, 7, False, None)
    before = to_power(test.inputs[:, 0, 0].double())
    assert metrics["mse"] == pytest.approx(float((before - test.power).square().mean()), rel=1e-4)
    assert abs(metrics["coverage_80"] - 80) < 8


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are computed in this process, which has the series."""

    def here(given: Any, work: Any, folder: Path, workers: int, progress: Any) -> Any:
        return Outcome([result for _, result in work(given, folder)], [])

    monkeypatch.setattr(power, "run_cells", here)


@pytest.mark.usefixtures("in_process")
def test_a_run_writes_results_and_what_figures_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [_cell("hour", "persistence"), _cell("hour", "lstm")]
    monkeypatch.setattr(power, "cells", lambda plan: few)
    shown = CliRunner().invoke(app, ["power", "--quick", "--out", str(tmp_path)], catch_exceptions=False)
    assert "results.jsonl.gz" in shown.output
    assert len(read_results(tmp_path / "results.jsonl.gz")) == 2
    assert [set(line) for line in read_records(tmp_path / "hours.jsonl.gz")] == [{"setting", "name", "seed", "pit"}] * 2
    weeks = read_records(tmp_path / "weeks.jsonl.gz")
    assert [(line["name"], line["runs"], sum(line["hours"])) for line in weeks] == [
        ("persistence", 1, 299), ("lstm", 1, 299),
    ]  # fmt: skip
    for line, result in zip(weeks, read_results(tmp_path / "results.jsonl.gz"), strict=True):
        assert set(line["sums"]) == set(LOSSES) & set(result.metrics)
        for metric in line["sums"]:
            assert over_weeks(line, metric).value == pytest.approx(result.metrics[metric], abs=1e-5)


def test_tau_is_not_called_temperature(tmp_path: Path) -> None:
    metrics = measure(_cell("hour", "st-tau"), tmp_path, tmp_path / "kept").metrics
    assert metrics["tau"] > 0
    assert "temperature" not in metrics


@pytest.mark.usefixtures("in_process")
def test_one_method_is_computed_alone_and_the_lines_of_others_stay(tmp_path: Path) -> None:
    plan = replace(QUICK, updates=dict.fromkeys(QUICK.updates, 2))
    power.run(tmp_path, plan, methods=["lstm", "dropout"])
    results, hours = read_results(tmp_path / "results.jsonl.gz"), read_records(tmp_path / "hours.jsonl.gz")
    names = [(line["setting"], line["name"]) for line in hours]
    assert names == [
        ("paper", "lstm"), ("paper", "dropout"), ("hour", "lstm"), ("hour", "dropout"), ("day", "lstm"),
        ("day", "dropout"), ("paths", "lstm"),
    ]  # fmt: skip
    power.run(tmp_path, replace(plan, samples=5), methods=["lstm"])
    again = read_results(tmp_path / "results.jsonl.gz")
    kept = [name == "dropout" for _, name in names]
    assert [result.settings["samples"] for result in again] == [3 if stays else 5 for stays in kept]
    assert [one == two for one, two in zip(results, again, strict=True)] == kept
    assert read_records(tmp_path / "hours.jsonl.gz") == hours  # an LSTM draws nothing
    weeks = [(line["setting"], line["name"]) for line in read_records(tmp_path / "weeks.jsonl.gz")]
    assert weeks == [name for name in names if name[0] != "paths"]
    with pytest.raises(ValueError, match="no method 'gru'; choose among automaton, bayes"):
        power.run(tmp_path, plan, methods=["gru"])
