from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from sttau.comparison.table import Comparison, Row
from sttau.jobs import Result, read_results


def row(method: str, metric: str, value: float, mark: str = "", half: float | None = 0.5) -> Row:
    bounds = {"low": None, "high": None} if half is None else {"low": value - half, "high": value + half}
    return {
        "data": "made up", "method": method, "metric": metric, "goal": "min", "value": value, "spread": None, **bounds,
        "seeds": 1, "difference": None, "p": None, "p_adjusted": None, "mark": mark,
    }  # fmt: skip


@pytest.fixture
def comparison() -> Comparison:
    rows = [
        row("lstm", "pe", 4), row("lstm", "nll", 2), row("lstm", "seconds", 9, half=None),
        row("st-tau", "pe", 3, "▲▲"), row("st-tau", "nll", 2.5, "▼"), row("st-tau", "seconds", 1000, half=None),
    ]  # fmt: skip
    results = [Result("compare", "made up", "lstm", None, 0, {"pe": 4.0, "nll": 2.0, "seconds": 9.0}, {}, 1.0)]
    return Comparison("made up", "lstm", 0.95, rows, results)


def test_the_table_shows_values_intervals_marks_and_the_best(comparison: Comparison) -> None:
    lines = str(comparison).split("\n")
    assert lines[0] == "| method | error % | NLL | training s |"
    assert lines[2] == "| lstm | 4.00 [3.50, 4.50] | **2.000** [1.500, 2.500] | 9.0 |"
    assert lines[3] == "| st-tau | **3.00** [2.50, 3.50] ▲▲ | 2.500 [2.000, 3.000] ▼ | 1,000.0 |"
    assert lines[5].startswith("made up: mean over 1 seed [95 % bootstrap interval")
    assert "ECE" not in lines[5]


def test_a_notebook_shows_the_same(comparison: Comparison) -> None:
    page = comparison._repr_html_()
    assert "<td><b>3.00</b> [2.50, 3.50] ▲▲</td>" in page
    assert page.count("<tr>") == 3


def test_rows_are_written_as_csv(comparison: Comparison, tmp_path: Path) -> None:
    text = comparison.to_csv(tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text("utf-8") == text
    read = list(csv.DictReader(io.StringIO(text)))
    assert [(line["method"], line["metric"], float(line["value"])) for line in read] == [
        (line["method"], line["metric"], line["value"]) for line in comparison.rows
    ]
    assert read[2]["low"] == ""


def test_everything_is_saved_in_a_folder(comparison: Comparison, tmp_path: Path) -> None:
    folder = comparison.save(tmp_path / "out")
    assert {path.name for path in folder.iterdir()} == {"results.jsonl", "table.csv", "table.md", "comparison.png"}
    assert read_results(folder / "results.jsonl") == comparison.results
    assert (folder / "table.md").read_text("utf-8").strip() == comparison.table()
    assert (folder / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_a_frame_needs_pandas_and_says_so(comparison: Comparison) -> None:
    try:
        import pandas  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match="to_frame needs pandas"):
            comparison.to_frame()
    else:
        assert list(comparison.to_frame()["value"]) == [line["value"] for line in comparison.rows]
