"""An experiment is added to a copy of the reproduction."""

from __future__ import annotations

from pathlib import Path

import sttau_reproduction
from tests.extension import copy_package, replace_once, run_copy

NEW_WORK = '''"""Coins: what is measured."""

from __future__ import annotations

from pathlib import Path

from sttau.jobs import Result, write_results


def run(folder: Path, flips: int) -> Path:
    """Write a result for each seed."""
    rows = [Result("coins", "coin", "fair", None, seed, {"heads": flips / 2}, {}, 0.0) for seed in (0, 1)]
    return write_results(rows, folder / "results.jsonl.gz")
'''
NEW_COMMAND = '''"""``sttau-reproduce coins``: flips of coins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sttau.cli.common import plain_errors, print_line


def coins(
    out: Annotated[Path, typer.Option(help="Folder for results.")],
    flips: Annotated[int, typer.Option(help="Number of flips.")] = 10,
) -> None:
    """Flip coins.

    Example: sttau-reproduce coins --out results
    """
    from sttau_reproduction.coins.work import run

    with plain_errors():
        print_line(f"Results: {run(out, flips)}")
'''
USE = "import sys; from sttau_reproduction.cli import app; app(sys.argv[1:])"


def test_a_new_experiment_is_one_folder_one_command_and_one_name(tmp_path: Path) -> None:
    package = copy_package(tmp_path, sttau_reproduction)
    (package / "coins").mkdir()
    (package / "coins/__init__.py").write_text('"""Coins."""\n', "utf-8")
    (package / "coins/work.py").write_text(NEW_WORK, "utf-8")
    (package / "cli/coins.py").write_text(NEW_COMMAND, "utf-8")
    replace_once(package / "cli/__init__.py", '"speed")', '"speed", "coins")')
    assert "Flip coins." in run_copy(package, "-c", USE, "--help")
    shown = run_copy(package, "-c", USE, "coins", "--out", str(tmp_path), "--flips", "4")
    assert shown == f"Results: {tmp_path / 'results.jsonl.gz'}\n"
    assert (tmp_path / "results.jsonl.gz").exists()
