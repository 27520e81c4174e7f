from __future__ import annotations

import json
from pathlib import Path

import pytest

from sttau.jobs import Result, read_results, write_results


def _result(seed: int) -> Result:
    return Result("quickstart", "digits", "st-tau", 10, seed, {"pe": 1.5}, {"updates": 3}, 0.1)


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    results = [_result(0), _result(1)]
    assert read_results(write_results(results, tmp_path / "deep" / "results.jsonl")) == results


def test_a_line_holds_every_field_of_the_contract(tmp_path: Path) -> None:
    line = json.loads(write_results([_result(0)], tmp_path / "results.jsonl").read_text("utf-8"))
    contract = {
        "experiment",
        "data",
        "method",
        "states",
        "seed",
        "metrics",
        "settings",
        "versions",
        "hardware",
        "seconds",
    }
    assert set(line) == contract
    assert {"torch", "numpy", "sttau", "python"} <= set(line["versions"])


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = write_results([_result(0)], tmp_path / "results.jsonl")
    before = path.read_text("utf-8")
    broken = Result("x", "x", "x", None, 0, {"pe": 1.0}, {"bad": object()}, 0.0)
    with pytest.raises(TypeError):
        write_results([_result(1), broken], path)
    assert path.read_text("utf-8") == before
    assert list(tmp_path.iterdir()) == [path]
