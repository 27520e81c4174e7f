"""Tables of the CartPole experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reproduction.tests.cartpole.made_up import results
from sttau.jobs import Cell, Outcome
from sttau_reproduction.cartpole import work
from sttau_reproduction.cartpole.tables import cartpole_table, overall_table, tables
from sttau_reproduction.cartpole.work import QUICK, Plan, run

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "reproduction" / "results" / "cartpole"


def test_the_table_tells_means_intervals_and_who_never_reached_the_goal() -> None:
    rows = cartpole_table(results())
    assert len(rows) == 16
    assert rows[0] == (
        "MDP, sampling", "LSTM", "31.0 [30.0, 32.0]", "40.0 [40.0, 40.0]", "2 of 3", "101 [100, never]",
        "3,001 [3,000, never]",
    )  # fmt: skip
    assert rows[4][4:] == ("0 of 3", "never", "never")


def test_the_interquartile_mean_needs_every_setting() -> None:
    found = results()
    assert [row[0] for row in overall_table(found)] == ["LSTM", "Bayes LSTM", "variational dropout", "ST-τ LSTM"]
    some = [r for r in found if not (r.method == "lstm" and r.settings["choice"] == "greedy")]
    assert len(overall_table(some)) == 3


def test_the_whole_experiment_gives_every_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def here(cells: Sequence[Cell], work: Any, folder: Path, **_: object) -> Outcome:
        return Outcome([result for _, result in work(cells, folder)], [])  # in this process, to save its start

    monkeypatch.setattr(work, "run_cells", here)
    plan = Plan(seeds=1, episodes=10, tuning_seeds=1, tuning_episodes=10, hidden_size=4, grids=QUICK.grids)
    outcome = run(tmp_path / "cells", tmp_path, plan)
    assert len(outcome.results) == 4 * 4 + 2 * 2
    made = tables(tmp_path)
    assert set(made) == {"cartpole", "overall", "tuned", "temperature", "entropy"}
    assert made["cartpole"].count("of 1") == 16


def test_the_tables_in_the_docs_are_those_of_the_committed_results() -> None:
    page = (ROOT / "docs" / "rl.md").read_text("utf-8")
    for name, table in tables(RESULTS).items():
        assert table.strip() in page, name
