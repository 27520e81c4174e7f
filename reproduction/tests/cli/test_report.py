from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from sttau_reproduction.cli import app


def test_a_folder_without_results_is_refused_with_a_remedy(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert answer.exit_code == 1
    assert "sttau-reproduce paper" in answer.output
