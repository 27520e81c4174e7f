from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sttau.cli import COMMANDS
from tests.cli.invocation import invoke
from tests.extension import copy_package, replace_once, run_copy

LEAVES = (
    "quickstart", "train", "predict", "evaluate", "run", "data list", "data info", "data get", "compare", "learn",
    "extract", "export", "rl train", "rl watch", "bench", "serve",
)  # fmt: skip
NEW_COMMAND = '''"""``sttau greet``: a greeting."""

from __future__ import annotations

from sttau.cli.common import print_line


def greet(name: str = "world") -> None:
    """Greet somebody."""
    print_line(f"Hello {name}!")
'''


def test_the_help_names_every_command() -> None:
    shown = invoke("--help")
    assert shown.exit_code == 0
    assert all(command in shown.output for command in COMMANDS)
    assert {command.split()[0] for command in LEAVES} == set(COMMANDS)


@pytest.mark.parametrize("command", LEAVES)
def test_every_command_has_an_example_and_describes_every_option_by_a_noun_phrase(command: str) -> None:
    shown = invoke(*command.split(), "--help")
    assert f"Example: sttau {command}" in shown.output
    described = [line.split("  ")[-1] for line in shown.output.splitlines() if " <" in line]
    assert described
    for text in described:
        assert not text.startswith(("Of ", "To ", "For ")), text


def test_the_help_does_not_import_torch() -> None:
    code = "import sys, sttau.cli; print([name for name in ('torch', 'numpy', 'matplotlib') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_an_unknown_command_is_a_usage_error() -> None:
    shown = invoke("frobnicate")
    assert shown.exit_code == 2
    assert "No such command 'frobnicate'" in shown.output


def test_a_new_command_is_one_file_and_one_word(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    (package / "cli" / "greet.py").write_text(NEW_COMMAND, "utf-8")
    replace_once(package / "cli" / "__init__.py", '"bench",', '"bench", "greet",')
    assert run_copy(package, "-m", "sttau", "greet", "--name", "Ada") == "Hello Ada!\n"
    assert "Greet somebody." in run_copy(package, "-m", "sttau", "--help")
