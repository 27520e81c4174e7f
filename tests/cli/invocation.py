"""How the tests run a command."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from sttau.cli import app


def invoke(*arguments: object) -> Result:
    """Run ``sttau`` with these arguments, in a wide terminal."""
    return CliRunner(env={"COLUMNS": "300"}).invoke(app, [str(argument) for argument in arguments])


def check_failure(result: Result, message: str, code: int) -> None:
    """Assert that a command failed with this message, on one line of standard error, without a traceback."""
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.output
