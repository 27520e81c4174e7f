"""A cell: one piece of an experiment, identified by all values that its result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sttau.jobs.results import Result


@dataclass(frozen=True)
class Cell:
    """One piece of an experiment. Its result depends on these values alone.

    Attributes:
        experiment: Name of the table or figure.
        data: Name of the data set.
        method: Name of the method, such as ``lstm`` or ``st-tau``.
        seed: Seed of all randomness.
        settings: All other values that matter, JSON-compatible.
        version: Version of the code that computes the cell; raised when that code would give other values.

    Example:
        >>> cell = Cell("table1", "bih", "st-tau", seed=0, settings={"states": 5})
        >>> cell.key == Cell("table1", "bih", "st-tau", seed=0, settings={"states": 5}).key
        True
        >>> cell.key == Cell("table1", "bih", "st-tau", seed=0, settings={"states": 10}).key
        False
    """

    experiment: str
    data: str
    method: str
    seed: int
    settings: dict[str, Any] = field(default_factory=dict)
    version: int = 1

    @property
    def key(self) -> str:
        """Hash of all values."""
        try:
            text = json.dumps(asdict(self), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"settings must be plain values (numbers, strings, lists, dicts): {error}") from error
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        """Description for messages."""
        return f"{self.experiment}: {self.method} on {self.data}, seed {self.seed}"


#: Function that computes the cells given to one process, and yields each with its result as soon as it is finished, or
#: with the exception it failed with. The folder belongs to these cells and survives an interruption: a place
#: for checkpoints.
Work = Callable[[Sequence[Cell], Path], Iterable[tuple[Cell, Result | Exception]]]


def per_cell(function: Callable[[Cell, Path], Result]) -> Work:
    """Make work out of a function of one cell and a folder.

    Example:
        >>> work = per_cell(lambda cell, folder: cell.seed)
        >>> [result for _, result in work([Cell("e", "d", "m", 0), Cell("e", "d", "m", 1)], Path())]
        [0, 1]
    """
    return partial(_one_by_one, function)


def _one_by_one(
    function: Callable[[Cell, Path], Result], cells: Sequence[Cell], folder: Path
) -> Iterator[tuple[Cell, Result]]:
    for cell in cells:
        yield cell, function(cell, folder)
