"""The cells that one process is given at a time."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sttau.jobs.cell import Cell, Work
from sttau.jobs.results import Result

#: A cell, its result (None if it failed), and the error.
Report = tuple[Cell, Result | None, str]

MAX_ATTEMPTS = 2  # for cells whose process died


class Task(NamedTuple):
    """Cells that are computed by one call of ``work``, and the folder for their unfinished files."""

    work: Work
    cells: tuple[Cell, ...]
    folder: Path

    def run(self) -> Iterator[Report]:
        """Report every cell when it is finished; an exception fails all cells that are not finished."""
        waiting, failures = {cell.key: cell for cell in self.cells}, 0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for cell, result in self.work(self.cells, self.folder):
                if isinstance(result, Exception):
                    failures += 1
                    yield waiting.pop(cell.key), None, "".join(traceback.format_exception(result))
                else:
                    yield waiting.pop(cell.key), result, ""
            error = "the work ended without a result for this cell"
        except Exception:
            error = traceback.format_exc()
        for cell in waiting.values():
            yield cell, None, error
        if not waiting and not failures:
            shutil.rmtree(self.folder, ignore_errors=True)
