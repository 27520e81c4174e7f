"""How the tests run a command."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

from typer.testing import CliRunner, Result

from sttau.cli import app


def invoke(*arguments: object, input: str | None = None) -> Result:
    """Run ``sttau`` with these arguments and this standard input, in a wide terminal."""
    return CliRunner(env={"COLUMNS": "300"}).invoke(app, [str(argument) for argument in arguments], input=input)


def invoke_in_terminal(*arguments: object, columns: int = 80) -> str:
    """Run ``sttau`` in a process of its own, in a pseudo-terminal, and return what it shows."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", "from sttau.cli import app; app()", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdout=follower, stderr=follower, stdin=follower, env=environment)
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert process.wait(timeout=60) == 0, shown.decode()
    return shown.decode()


def check_failure(result: Result, message: str, code: int) -> None:
    """Assert that a command failed with this message, on one line of standard error, without a traceback."""
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.output
