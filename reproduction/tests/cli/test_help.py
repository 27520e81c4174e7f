from __future__ import annotations

import pytest
from typer.testing import CliRunner

from sttau_reproduction.cli import app

COMMANDS = (
    "paper", "report", "tables", "merge", "trials", "curves", "automata", "power", "cartpole", "speed baselines",
    "speed automata",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command: str) -> None:
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*command.split(), "--help"])
    assert shown.exit_code == 0
    assert f"Example: sttau-reproduce {command}" in shown.output
