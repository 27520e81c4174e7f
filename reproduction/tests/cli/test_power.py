from __future__ import annotations

from typer.testing import CliRunner

from sttau_reproduction.cli import app


def test_a_history_of_one_hour_is_refused() -> None:
    shown = CliRunner().invoke(app, ["power", "--history", "1"])
    assert shown.exit_code == 1
    assert "--history must be at least 2 hours, got 1" in shown.output
