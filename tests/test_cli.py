from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sttau.cli import app
from sttau.experiments import quickstart

SMALL = {"automaton_updates": 200, "digit_updates": 5, "digit_seeds": 1, "samples": 2, "digit_hidden": 8}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    full = quickstart.Settings
    monkeypatch.setattr(quickstart, "Settings", lambda: full(grammar=1, **SMALL))  # type: ignore[arg-type]


def test_help_names_the_commands_and_each_has_an_example() -> None:
    assert "quickstart" in CliRunner().invoke(app, ["--help"]).output
    assert "Example" in CliRunner().invoke(app, ["quickstart", "--help"]).output


@pytest.mark.usefixtures("small")
def test_quickstart_says_what_came_out_and_where_it_is(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["quickstart", "--out", str(tmp_path / "out")])
    assert answer.exit_code == 0, answer.output
    assert "proved equal" in answer.output
    assert "training: digits, ST-τ LSTM, seed 0" in answer.output
    assert "report.html" in answer.output
    assert (tmp_path / "out/report.html").exists()


def test_quickstart_fails_when_the_automaton_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = quickstart.Settings
    untrained = SMALL | {"automaton_updates": 1, "automaton_attempts": 1}
    monkeypatch.setattr(quickstart, "Settings", lambda: full(grammar=3, **untrained))  # type: ignore[arg-type]
    answer = CliRunner().invoke(app, ["quickstart", "--out", str(tmp_path)])
    assert answer.exit_code == 1
    assert "differs on" in answer.output


def test_a_file_in_the_place_of_the_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    answer = CliRunner().invoke(app, ["quickstart", "--out", str(path)])
    assert answer.exit_code == 2
    assert "name a folder" in answer.output
