from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from reproduction.tests.classification.small_networks import network
from sttau.jobs import Cell, Outcome, read_results, write_results
from sttau_reproduction.classification import cells
from sttau_reproduction.cli import app


def _run(*options: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["paper", *options])


def test_missing_cells_are_computed_and_the_place_of_results_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "networks_of", lambda what: [network("lstm", seeds=2)])
    options = ["table1", "--quick", "--seeds", "1", "--device", "cpu", "--out", str(tmp_path)]
    listed = _run(*options, "--dry-run")
    assert "1 cells, of which 1 are to be computed" in listed.output
    assert "paper: lstm on digits, seed 0" in listed.output
    assert not list(tmp_path.iterdir())
    shown = _run(*options)
    assert shown.exit_code == 0, shown.output
    for words in ("the numbers mean nothing", "1/1 paper: lstm on digits, seed 0", "results.jsonl.gz"):
        assert words in shown.output
    assert [row.method for row in read_results(tmp_path / "results.jsonl.gz")] == ["lstm"]
    assert "of which 0 are to be computed" in _run(*options, "--dry-run").output


def test_failures_and_interruptions_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hot(given: list[Cell], folder: Path, **_: object) -> Outcome:
        write_results([], folder / "results.jsonl.gz")
        return Outcome([], [(given[0], "Error: too hot")])

    monkeypatch.setattr(cells, "check_data", lambda cells: None)
    monkeypatch.setattr(cells, "run", hot)
    options = ["all", "--device", "cpu", "--out", str(tmp_path)]
    failed = _run(*options)
    assert failed.exit_code == 1
    assert "lstm on bih, seed 0 failed: Error: too hot" in failed.output

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cells, "run", interrupted)
    stopped = _run(*options)
    assert stopped.exit_code == 130
    assert "The same command resumes" in stopped.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["table9"], "must be one of table1"),
        (["table1", "--seeds", "0"], "seeds must be at least 1"),
        (["table1", "--on", "moon"], "--on must be one of local, ray"),
        (["table1"], "bih is not on this machine"),
    ],
)
def test_wrong_options_are_reported_without_a_traceback(
    options: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STTAU_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("STTAU_CACHE", str(tmp_path / "cache"))
    shown = _run(*options, "--device", "cpu", "--out", str(tmp_path / "out"))
    assert shown.exit_code == 1
    assert words in shown.output
