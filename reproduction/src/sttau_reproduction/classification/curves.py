"""Validation metrics in the course of training, from the logs of trained networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from sttau.jobs import Cell
from sttau.training import read_log
from sttau_reproduction.classification.trained import network_path, trainings_of
from sttau_reproduction.records import append_records


def curves(cells: Iterable[Cell], folder: Path) -> list[dict[str, Any]]:
    """What was measured on validation data, update by update, for each cell whose log is there.

    With medians of loss and gradient norm over the updates since the measurement before.

    Args:
        cells: Cells of single networks; ensembles are left out.
        folder: Folder of trained networks.

    Example:
        >>> curves([], Path("nowhere"))
        []
    """
    found = []
    for cell in cells:
        training, *more = trainings_of(cell)
        path = network_path(folder, training).with_suffix(".jsonl")
        if more or not path.exists():
            continue
        log = read_log(path, thinned=True)
        measured = [update for update in log if update.validation is not None]
        row: dict[str, Any] = {"data": cell.data, "method": cell.method, "seed": cell.seed}
        row["update"] = [update.number for update in measured]
        for name in ("error", "nll"):
            row[name] = [round(update.metrics[name], 5) for update in measured]
        for name in ("loss", "gradient_norm"):
            row[name] = [
                float(f"{median(getattr(update, name) for update in log if first < update.number <= last):.4g}")
                for first, last in pairwise([0, *row["update"]])
            ]
        found.append(row)
    return found


def append_curves(rows: Iterable[Mapping[str, Any]], question: str, path: Path) -> None:
    """Append curves to a file, each with the date of today and the question."""
    append_records(({"date": date.today().isoformat(), "question": question, **row} for row in rows), path)
