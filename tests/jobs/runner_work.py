"""Cells and work for the tests of the runner; other processes import it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sttau.jobs import Cell, Result


def result(cell: Cell) -> Result:
    return Result(
        cell.experiment, cell.data, cell.method, None, cell.seed, {"square": cell.seed**2}, cell.settings, 0.0
    )


def square(cell: Cell, folder: Path) -> Result:
    """Leave a trace of every call; do what the settings ask for."""
    with (Path(cell.settings["trace"])).open("a") as trace:
        trace.write(f"{cell.seed}\n")
    if cell.settings.get("fails") == cell.seed:
        raise RuntimeError("this cell cannot be computed")
    mark = Path(cell.settings["trace"]).with_name(f"died-{cell.seed}")
    if cell.settings.get("dies") == cell.seed and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if cell.settings.get("always dies") == cell.seed:
        os.kill(os.getpid(), signal.SIGKILL)
    at_work = Path(cell.settings["trace"]).with_name(f"at-work-{cell.seed}")
    at_work.touch()
    try:
        time.sleep(cell.settings.get("seconds", 0))
    finally:
        at_work.unlink()
    return result(cell)


def at_once(cells: Sequence[Cell], folder: Path) -> Iterator[tuple[Cell, Result]]:
    """All cells of a group in one call; the last is forgotten if the settings say so."""
    with (Path(cells[0].settings["trace"])).open("a") as trace:
        trace.write(f"{len(cells)}\n")
    assert folder.is_dir()
    for cell in cells:
        if cell.settings.get("forgets") != cell.seed:
            yield cell, result(cell)


def some_fail(cells: Sequence[Cell], folder: Path) -> Iterator[tuple[Cell, Result | Exception]]:
    """All cells of a group in one call, which says itself which of them failed."""
    for cell in cells:
        try:
            yield cell, square(cell, folder)
        except RuntimeError as error:
            yield cell, error


def make_cells(folder: Path, count: int, **settings: Any) -> list[Cell]:
    return [Cell("e", "d", "m", seed, {"trace": str(folder / "trace.txt"), **settings}) for seed in range(count)]


def read_trace(folder: Path) -> list[int]:
    return sorted(int(line) for line in (folder / "trace.txt").read_text().split())


def squares(results: list[Any]) -> list[float]:
    return [result.metrics["square"] for result in results]
