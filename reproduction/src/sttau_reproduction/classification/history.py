"""How long it took: ``runs.jsonl`` has a line for every run that had something to compute."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from sttau.files import write_atomically
from sttau.jobs import Cell, Store, hardware


@dataclass(frozen=True)
class Stretch:
    """One run: what it computed, by data set, network and seed; how long it took; and on what."""

    seconds: float
    hardware: str
    computed: list[str]


def history_path(folder: Path) -> Path:
    """Path of the file in which the runs of a folder are recorded."""
    return folder / "runs.jsonl"


def read_history(folder: Path) -> list[Stretch]:
    """The runs so far; none where nothing is noted.

    Example:
        >>> read_history(Path("nowhere"))
        []
    """
    path = history_path(folder)
    if not path.exists():
        return []
    return [Stretch(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def needed(history: Sequence[Stretch]) -> list[Stretch]:
    """The runs without those of which everything was computed again later, as when a setting has changed.

    Example:
        >>> [run.seconds for run in needed([Stretch(60.0, "a GPU", ["a 0"]), Stretch(90.0, "a GPU", ["a 0", "a 1"])])]
        [90.0]
    """
    last = {name: number for number, stretch in enumerate(history) for name in stretch.computed}
    return [
        stretch
        for number, stretch in enumerate(history)
        if not stretch.computed or any(last[name] == number for name in stretch.computed)
    ]


@contextmanager
def noted(cells: Sequence[Cell], store: Store, folder: Path) -> Iterator[None]:
    """Note what of these cells was computed inside, and in what time, also if it was interrupted."""
    missing = [cell for cell in cells if store.read(cell) is None]
    began = perf_counter()
    try:
        yield
    finally:
        made = [(cell, result) for cell in missing if (result := store.read(cell)) is not None]
        if missing:  # networks that were trained cost time, though no cell was done before the end
            names = [f"{cell.data} {cell.method} {cell.seed}" for cell, _ in made]
            new = Stretch(round(perf_counter() - began, 1), made[0][1].hardware if made else hardware(), names)
            lines = [json.dumps(asdict(stretch)) + "\n" for stretch in (*read_history(folder), new)]
            write_atomically(history_path(folder), "".join(lines).encode())
