"""What several commands need: folders, errors without a traceback, progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sttau.jobs import Cell, Step

#: Committed results, from the root of the repository.
RESULTS = Path("reproduction/results")


@contextmanager
def plain_errors(console: Console) -> Iterator[None]:
    """Print expected errors as one line, without a traceback, and end with a failure."""
    try:
        yield
    except (OSError, ValueError, ImportError, FloatingPointError) as error:
        console.print(f"[red]{escape(str(error))}[/red]", soft_wrap=True, highlight=False)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        console.print(escape(str(error)) or "interrupted", soft_wrap=True, highlight=False)
        raise typer.Exit(130) from error


def check_folder(console: Console, out: Path) -> None:
    """Refuse a file as a folder, before any work."""
    if out.exists() and not out.is_dir():
        console.print(f"[red]--out {out} is a file; name a folder[/red]")
        raise typer.Exit(2)


def choose_device(console: Console, device: str) -> str:
    """The named device, or for ``auto`` the GPU where there is one."""
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cuda", "cpu") or (device == "cuda" and not torch.cuda.is_available()):
        available = "cuda, cpu" if torch.cuda.is_available() else "cpu"
        console.print(f"[red]--device {device} is not available; this machine has: {available}[/red]")
        raise typer.Exit(2)
    return device


def show_steps(console: Console, title: Callable[[Cell], str] = lambda cell: cell.title) -> Callable[[Step], None]:
    """A progress callback that prints a line per cell."""

    def show(step: Step) -> None:
        state = "failed" if step.failure else f"about {_duration(step.seconds_left)} left"
        console.print(f"{step.done}/{step.total} {title(step.cell)}: {state}", soft_wrap=True, highlight=False)

    return show


def show_failures(console: Console, failures: Sequence[tuple[Cell, str]]) -> None:
    """Print why cells failed, and end with a failure if any did."""
    for cell, why in failures:
        console.print(f"[red]{escape(cell.title)} failed:[/red] {escape(why)}", soft_wrap=True, highlight=False)
    if failures:
        raise typer.Exit(1)


def show_table(console: Console, title: str, header: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> None:
    """Print a table whose first columns are left-aligned."""
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number < left else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
