"""Tables of the paper's experiments, from fabricated results."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from reproduction.tests.classification.fabricated import values
from sttau.jobs import Result
from sttau.metrics import calibration_error_by_chance
from sttau_reproduction.classification import dropout_sweep
from sttau_reproduction.classification.declaration import DATA
from sttau_reproduction.classification.diagnostics import tables as diagnostic
from sttau_reproduction.classification.history import Stretch
from sttau_reproduction.classification.networks import find
from sttau_reproduction.classification.predictions import read_summaries, reduce_predictions
from sttau_reproduction.classification.report import tables
from sttau_reproduction.classification.tables import TABLES

pytestmark = pytest.mark.usefixtures("no_data")


def _part(table: str, data: str) -> str:
    """Of a table of several data sets, that of one."""
    return table.split(f"**{DATA[data]}**")[1].split("\n\n")[1]


def _row(table: str, name: str) -> list[str]:
    (line,) = (line for line in table.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip().strip("*") for cell in line.strip("|").split("|")]


def test_table_1_shows_both_spreads_the_paper_and_the_goal(folder: Path, results: list[Result]) -> None:
    table = _part(tables(results, read_summaries(folder))["table1"], "bih")
    row = _row(table, "ST-τ, k = 5")
    assert int(row[1]) == find("bih", "st-tau-classes").seeds > 1
    for cell, key in zip(row[2:5], ("pe", "ece", "mce"), strict=True):
        seeds = values(results, "bih", "st-tau-classes", key)
        (runs,) = values(results, "bih", "st-tau-classes", f"{key}_std")  # seed 0 alone was asked again
        assert cell == f"{np.mean(seeds):.2f} ± {np.std(seeds, ddof=1):.2f} (± {runs:.2f})"
    assert row[5] == "2.12 / 0.45 / 23.11"
    assert "(" not in _row(table, "LSTM")[2]  # asked again it answers the same
    assert "±" not in _row(table, "deep ensemble of 10")[2]  # one seed, and one answer
    assert _row(table, "goal for ST-τ, mixed states")[2].startswith("≤ 1.40")


def test_a_goal_says_whether_it_is_reached() -> None:
    good, bad = ({"pe": 1.404, "ece": ece, "mce": 12.0} for ece in (0.3, 0.5))
    for metrics, mark in ((good, "✓"), (bad, "✗")):
        row = Result("paper", "bih", "st-tau-best", 10, 0, metrics, {}, 1.0)
        goal = _row(_part(tables([row], {})["table1"], "bih"), "goal for ST-τ, mixed states")
        assert goal[2:5] == ["≤ 1.40 ✓", f"≤ 0.40 {mark}", "≤ 12.44 ✓"]


def test_errors_that_the_test_cannot_tell_from_the_best_are_bold() -> None:
    labels = np.zeros(400, np.uint8)
    rows, summaries = [], {}
    for name, wrong in {"lstm": 0, "ensemble": 3, "dropout": 60}.items():
        p = np.tile(np.array([0.9, 0.025, 0.025, 0.025, 0.025], np.float32), (400, 1))
        p[:wrong] = p[:wrong, ::-1]
        summaries["bih", name] = reduce_predictions({"probabilities": p, "labels": labels})
        metrics = {"pe": wrong / 4, "ece": 1.0 + wrong, "mce": 2.0}
        rows.append(Result("paper", "bih", name, None, 0, metrics, {}, 1.0))
    table = tables(rows, summaries)["table1"]
    assert "| LSTM | 1 | **0.00** | **1.00** | **2.00** |" in table
    assert "| deep ensemble of 10 | 1 | **0.75** | 4.00 | **2.00** |" in table
    assert "| VD | 1 | 15.00 | 61.00 | **2.00** |" in table
    without = tables(rows, {})["table1"]
    assert "| deep ensemble of 10 | 1 | 0.75 | 4.00 | **2.00** |" in without


def test_what_was_not_computed_is_a_dash(folder: Path, results: list[Result]) -> None:
    history = [Stretch(60.0, "a GPU", ["bih lstm 0"])]
    made, empty = tables(results, read_summaries(folder), history), tables([], {})
    assert list(made) == list(empty)
    from_diagnostics = {table.name for table in diagnostic.TABLES} | {"detection-finding"}
    detects = {table.name for table in TABLES if table.others}  # the length alone has no accuracy
    whole = set(made) - from_diagnostics - detects - {"table1", "ablation-best"}  # an LSTM has no states and no τ
    assert not [name for name in whole if "—" in made[name]]
    assert _row(_part(empty["table1"], "imdb"), "LSTM")[1:6] == ["—", "—", "—", "—", "10.42 / 3.64 / 11.24"]
    for table in empty.values():
        assert not re.search(r"\| \*\*|±|✓|✗", table)
    first = [row for row in results if row.seed == 0 and row.data == "bih"]
    some = tables(first, read_summaries(folder))
    assert " ± " not in some["table1"]
    assert _part(some["table1"], "imdb") == _part(empty["table1"], "imdb")


def test_the_other_tables_show_intervals_costs_detection_and_the_sweep(folder: Path, results: list[Result]) -> None:
    made = tables(results, read_summaries(folder))
    first = next(row.metrics for row in results if (row.data, row.method, row.seed) == ("imdb", "dropout", 0))
    more = _row(_part(made["table1-more"], "imdb"), "VD")
    assert more[2] == f"[{first['ece_low']:.2f}, {first['ece_high']:.2f}]"
    with np.load(folder / "predictions" / "imdb-dropout.npz") as arrays:
        chance = calibration_error_by_chance(arrays["probabilities"])["maximum"]
    assert more[5] == f"{100 * chance.value:.1f} [{100 * chance.low:.1f}, {100 * chance.high:.1f}]"
    assert more[8] == f"{first['brier']:.4f} (± {first['brier_std']:.4f})"
    assert _row(_part(made["table1-cost"], "imdb"), "VD")[2:] == ["68,101", "20,000", "84", "0.310"]
    found = _row(made["table2-max-probability"], "VD")
    assert found[3] == f"{first['customer_max_probability_aupr']:.1f} (± 0.7)"
    assert found[6] == "88.5 / 74.8 / 80.6"
    assert found[9] == f"{first['movie_max_probability_auroc']:.1f} (± 0.7)"
    assert _row(_part(made["table3"], "imdb"), "VD")[3] == f"{first['scaled_ece']:.2f}"
    sweep = _part(made["dropout-sweep"], "imdb")
    assert f"| VD | 0.4 | {first['sweep_0.4_pe']:.2f} | {first['sweep_0.4_ece']:.2f} |" in sweep
    assert len(sweep.splitlines()) == 2 + len(dropout_sweep.RATES) + len(dropout_sweep.COMPARED)
    assert _row(made["inter-patient"], "LSTM")[1] == str(find("bih_inter_patient", "lstm").seeds)
    assert made["ablation"].count("τ = 1") == 4
    assert not any("| LSTM |" in made[f"table2-{score}"] for score in ("variance", "mutual-information"))
