from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

from reproduction.tests.classification.fabricated import fabricate
from sttau_reproduction.classification.networks import find
from sttau_reproduction.cli import app


def test_what_was_added_is_listed_and_no_result_is_added_twice(tmp_path: Path) -> None:
    source = fabricate(tmp_path / "source", 40, (replace(find("bih", "lstm"), seeds=1),))
    target = fabricate(tmp_path / "target", 40, (replace(find("bih", "automaton"), seeds=1),))
    first, again = (
        CliRunner(env={"COLUMNS": "200"}).invoke(app, ["merge", str(source), "--into", str(target)]) for _ in range(2)
    )
    assert first.exit_code == again.exit_code == 0, first.output
    assert "Added: bih lstm 0" in first.output
    assert "Added: diagnostics: bih lstm 0" in first.output
    assert "Added: " not in again.output


def test_a_folder_that_is_not_there_is_refused_with_a_remedy(tmp_path: Path) -> None:
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["merge", str(tmp_path / "none"), "--into", str(tmp_path)])
    assert shown.exit_code == 1
    assert "name one that sttau-reproduce paper wrote" in " ".join(shown.output.split())
