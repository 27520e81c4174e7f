"""Runs the cells of an experiment: each once, several at a time; a failure is reported and does not stop the others.

A finished cell is a file named by the hash of the cell: no cell is computed twice, an interrupted run is resumed, and
several runs can share a folder. Cells are computed in local processes, in this process, or on a Ray cluster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from sttau.checks import as_integer
from sttau.jobs.cell import Cell, Work
from sttau.jobs.cluster import run_on_ray
from sttau.jobs.local import run_in_processes
from sttau.jobs.results import Result
from sttau.jobs.store import Store
from sttau.jobs.task import Report, Task

Backend = Literal["local", "ray"]


class Step(NamedTuple):
    """Progress of a run, after a cell is finished or has failed."""

    cell: Cell
    failure: str | None
    done: int  # finished or failed cells, including those finished before the run
    total: int
    seconds_left: float


class Outcome(NamedTuple):
    """Results of a run in the order of the cells, and the cells that failed with their errors."""

    results: list[Result]
    failures: list[tuple[Cell, str]]


def run_cells(
    cells: Iterable[Cell],
    work: Work,
    folder: str | os.PathLike[str],
    *,
    on: Backend = "local",
    workers: int = 1,
    group_by: Callable[[Cell], Hashable] | None = None,
    gpus: float = 0,
    progress: Callable[[Step], None] = lambda _: None,
) -> Outcome:
    """Compute all cells that are not finished yet.

    Args:
        cells: Cells of one or several experiments; equal cells are computed once.
        work: Function that computes cells; see :func:`per_cell`. Other processes must be able to import it.
        folder: Folder for results and unfinished files.
        on: ``local`` for processes on this machine; ``ray`` for the cluster that ``RAY_ADDRESS`` names, or one that is
            started on this machine.
        workers: Number of processes; 0 computes the cells in this process. An existing cluster uses all it has.
        group_by: Function of a cell; cells with the same value are given to one process together.
        gpus: Number of GPUs that each process needs of a Ray cluster.
        progress: Callback after every cell.

    Returns:
        All results, old and new, and the failures.
    """
    if on not in get_args(Backend):
        raise ValueError(f"on must be one of {', '.join(map(repr, get_args(Backend)))}, got {on!r}")
    workers = as_integer("workers", workers, 0)
    if workers == 0 and on != "local":
        raise ValueError(f"workers must be at least 1, or 0 for this process with on='local', got {workers}")
    store, every = Store(folder), {cell.key: cell for cell in cells}
    missing = [cell for cell in every.values() if store.read(cell) is None]
    groups: dict[Hashable, list[Cell]] = {}
    for cell in missing:
        groups.setdefault(cell.key if group_by is None else group_by(cell), []).append(cell)
    failures: dict[str, str] = {}
    began, found = time.perf_counter(), len(every) - len(missing)
    tasks = [Task(work, tuple(group), store.scratch_folder(group)) for group in groups.values()]
    for made, (cell, result, error) in enumerate(_reports(tasks, on, workers, gpus), 1):
        if result is None:
            failures[cell.key] = error
            store.fail(cell, error)
        else:
            store.write(cell, result)
        left = (time.perf_counter() - began) / made * (len(missing) - made)
        progress(Step(cell, None if result is not None else error, found + made, len(every), left))
    results = [result for cell in every.values() if (result := store.read(cell)) is not None]
    return Outcome(results, [(every[key], error) for key, error in failures.items()])


def _reports(tasks: Sequence[Task], on: Backend, workers: int, gpus: float) -> Iterator[Report]:
    if on == "ray":
        return run_on_ray(tasks, workers, gpus)
    if workers == 0:
        return (report for task in tasks for report in task.run())
    return run_in_processes(tasks, workers)
