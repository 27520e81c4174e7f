from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sttau import quickstart
from tests.cli.invocation import check_failure, invoke

SMALL: dict[str, Any] = {
    "automaton_updates": 200, "digit_updates": 5, "digit_seeds": 1, "samples": 2, "digit_hidden": 8,
}  # fmt: skip


def _shrink(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    full = quickstart.Settings
    monkeypatch.setattr(quickstart, "Settings", lambda: full(**SMALL | settings))


def test_the_verdict_the_table_and_the_place_of_the_report_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _shrink(monkeypatch, grammar=1)
    shown = invoke("quickstart", "--out", tmp_path / "out")
    assert shown.exit_code == 0, shown.output
    assert "proved equal" in shown.output
    assert "training: digits, ST-τ LSTM, seed 0" in shown.output
    assert "Handwritten digits, 1 seed\n" in "\n".join(line.rstrip() for line in shown.output.splitlines())
    assert "report.html" in shown.output
    assert (tmp_path / "out/report.html").exists()


def test_a_wrong_automaton_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _shrink(monkeypatch, grammar=3, automaton_updates=1, automaton_attempts=1)
    monkeypatch.setattr(quickstart, "save_opinions", lambda *_, **__: None)  # parts that have nothing to do with it
    monkeypatch.setattr("sttau.cli.quickstart._own_file", lambda *_: None)
    shown = invoke("quickstart", "--out", tmp_path)
    assert shown.exit_code == 1
    assert "differs on" in shown.output


def test_a_file_is_refused_as_the_folder_before_any_work(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    check_failure(invoke("quickstart", "--out", path), "--out must be a folder", code=2)
