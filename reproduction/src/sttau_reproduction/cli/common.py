"""Parts shared by the commands of the reproduction: the folder of results, progress and failures of cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sttau.cli.common import duration, print_line

if TYPE_CHECKING:
    from sttau.jobs import Cell, Step

#: Committed results, from the root of the repository.
RESULTS = Path("reproduction/results")


def show_steps(title: Callable[[Cell], str] = lambda cell: cell.title) -> Callable[[Step], None]:
    """Return a progress callback that prints a line per cell."""

    def show(step: Step) -> None:
        state = "failed" if step.failure else f"about {duration(step.seconds_left)} left"
        print_line(f"{step.done}/{step.total} {title(step.cell)}: {state}")

    return show


def show_failures(failures: Sequence[tuple[Cell, str]]) -> None:
    """Print why cells failed, and exit with code 1 if any did."""
    for cell, why in failures:
        print_line(f"{cell.title} failed: {why}", style="red")
    if failures:
        raise typer.Exit(1)
