"""The comparison that is shown in the documentation is the one whose results are kept."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import mean

import pytest

from sttau.comparison import METHODS
from sttau.jobs import read_results

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/results/compare-digits"


def test_the_table_on_the_page_is_the_one_that_was_made() -> None:
    page = (ROOT / "docs/compare.md").read_text("utf-8")
    assert (FOLDER / "table.md").read_text("utf-8").strip() in page


def test_its_values_are_the_means_over_the_networks() -> None:
    results = read_results(FOLDER / "results.jsonl")
    with (FOLDER / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {result.method for result in results} == set(METHODS)
    marked = {(row["method"], row["metric"], row["mark"][0]) for row in rows if row["mark"]}
    worse = {(method, metric, "▼") for method in ("laplace", "bayes") for metric in ("pe", "nll", "brier", "ece")}
    better = {(method, metric, "▲") for method in ("ensemble", "swag") for metric in ("nll", "brier")}
    finite = {("mixture", metric, "▼") for metric in ("pe", "nll", "brier", "ece", "aurc", "set_size")}
    assert marked == better | worse | finite | {("laplace", "set_size", "▼")}  # what the page says
    for row in rows:
        values = [result.metrics[row["metric"]] for result in results if result.method == row["method"]]
        assert len(values) == int(row["seeds"]) == 3
        assert float(row["value"]) == pytest.approx(mean(values))
