"""Storage of finished cells."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from sttau.errors import ResultsError, reading
from sttau.files import set_aside, write_atomically
from sttau.jobs.cell import Cell
from sttau.jobs.results import Result, result_from

_log = logging.getLogger(__name__)


class Store:
    """Finished cells, one file each: ``folder/experiment/key.json``, or ``key.failed.txt`` with the error.

    Args:
        folder: Folder of the files.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, cell: Cell) -> Path:
        """Return the path of a cell's result."""
        return self.folder / cell.experiment / f"{cell.key}.json"

    def read(self, cell: Cell) -> Result | None:
        """Return the result of a finished cell; None if it is not finished.

        A damaged file is renamed to ``NAME.damaged``, which is logged, and its cell is computed again.
        """
        path = self.path(cell)
        try:
            with reading(path, ResultsError):
                content = json.loads(path.read_bytes())
                if content["cell"] != json.loads(json.dumps(asdict(cell))):
                    raise ResultsError(f"{path} holds another cell")
                return result_from(content["result"])
        except FileNotFoundError:
            return None
        except ResultsError as error:
            damaged = set_aside(path)
            _log.warning("%s; it is now called %s, and the cell is computed again", error, damaged.name)
            return None

    def write(self, cell: Cell, result: Result) -> None:
        """Write the result of a cell."""
        content = json.dumps({"cell": asdict(cell), "result": asdict(result)}, sort_keys=True)
        write_atomically(self.path(cell), content.encode())
        self._failure(cell).unlink(missing_ok=True)

    def fail(self, cell: Cell, error: str) -> None:
        """Write the error of a cell; the next run tries it again."""
        write_atomically(self._failure(cell), error.encode())

    def scratch_folder(self, cells: Sequence[Cell]) -> Path:
        """Return a folder for files that are needed only until these cells are finished."""
        return self.folder / cells[0].experiment / "unfinished" / "-".join(sorted({cell.key for cell in cells}))[:100]

    def _failure(self, cell: Cell) -> Path:
        return self.path(cell).with_suffix(".failed.txt")
