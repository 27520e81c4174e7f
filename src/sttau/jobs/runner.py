"""Runs the cells of an experiment: each once, several at a time; what fails is reported and stops nobody.

A :class:`Cell` says all that a result depends on, and its name is a hash of that. A finished cell is a file of that
name, so no cell is computed twice, an interrupted run goes on where it was, and several runs can share a folder. Cells
are computed by local processes, or on a Ray cluster.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from sttau.files import write_atomically
from sttau.jobs.results import Result

Where = Literal["local", "ray"]

_TRIES = 2  # of cells whose process died
_PATIENCE = 60  # seconds that processes have to end after an interruption


@dataclass(frozen=True)
class Cell:
    """One piece of an experiment. What comes out follows from these values alone.

    Attributes:
        experiment: name of the table or figure.
        data: name of the data set.
        method: ``lstm``, ``st-tau`` … .
        seed: of everything random.
        settings: plain values; all else that matters.
        version: of the code that computes it; raised whenever that code would give other numbers.

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
        """A name made of all the values."""
        try:
            text = json.dumps(asdict(self), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"settings must be plain values (numbers, strings, lists, dicts): {error}") from error
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.experiment}: {self.method} on {self.data}, seed {self.seed}"


#: Computes cells that are given to one process together, and yields each with its result as soon as it has it, or with
#: the exception that it failed with while the others go on. The folder is its own and survives an interruption: the
#: place for checkpoints.
Work = Callable[[Sequence[Cell], Path], Iterable[tuple[Cell, Result | Exception]]]


class Each:
    """Makes work of a function of one cell and a folder.

    Example:
        >>> work = Each(lambda cell, folder: cell.seed)
        >>> [result for _, result in work([Cell("e", "d", "m", 0), Cell("e", "d", "m", 1)], Path())]
        [0, 1]
    """

    def __init__(self, function: Callable[[Cell, Path], Result]) -> None:
        self.function = function

    def __call__(self, cells: Sequence[Cell], folder: Path) -> Iterator[tuple[Cell, Result]]:
        """Compute one after the other."""
        for cell in cells:
            yield cell, self.function(cell, folder)


class Step(NamedTuple):
    """How far a run is, each time a cell is finished or has failed."""

    cell: Cell
    failure: str | None
    done: int  # finished or failed, those found finished included
    total: int
    seconds_left: float


class Outcome(NamedTuple):
    """What a run leaves: results in the order of the cells, and why others failed."""

    results: list[Result]
    failures: list[tuple[Cell, str]]


class Store:
    """Finished cells, one file each: ``folder/experiment/key.json``; ``key.failed.txt`` says why one failed."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, cell: Cell) -> Path:
        """Where the result of a cell is kept."""
        return self.folder / cell.experiment / f"{cell.key}.json"

    def read(self, cell: Cell) -> Result | None:
        """Return the result of a finished cell; None if it is not finished."""
        try:
            return Result(**json.loads(self.path(cell).read_text("utf-8"))["result"])
        except FileNotFoundError:
            return None

    def write(self, cell: Cell, result: Result) -> None:
        """Keep a result."""
        content = json.dumps({"cell": asdict(cell), "result": asdict(result)}, sort_keys=True)
        write_atomically(self.path(cell), content.encode())
        self._failure(cell).unlink(missing_ok=True)

    def fail(self, cell: Cell, why: str) -> None:
        """Note why a cell failed; the next run tries it again."""
        write_atomically(self._failure(cell), why.encode())

    def workshop(self, cells: Sequence[Cell]) -> Path:
        """A folder for what is needed only until these cells are finished."""
        return self.folder / cells[0].experiment / "unfinished" / "-".join(sorted({cell.key for cell in cells}))[:100]

    def _failure(self, cell: Cell) -> Path:
        return self.path(cell).with_suffix(".failed.txt")


def run_cells(
    cells: Iterable[Cell],
    work: Work,
    folder: str | os.PathLike[str],
    *,
    on: Where = "local",
    workers: int = 1,
    together: Callable[[Cell], Hashable] | None = None,
    gpus: float = 0,
    progress: Callable[[Step], None] = lambda _: None,
) -> Outcome:
    """Compute all cells that are not finished yet.

    Args:
        cells: of one experiment or of several; equal ones are computed once.
        work: computes them; a function or object that another process can import.
        folder: for results and for what is unfinished.
        on: ``local`` for processes on this machine; ``ray`` for the cluster that ``RAY_ADDRESS`` names, or else one
            that is started here.
        workers: how many work at a time; on a cluster that is there, as many as it has room for.
        together: cells for which it gives the same value are handed to one process at once.
        gpus: that each needs of a Ray cluster.
        progress: is told of every cell.

    Returns:
        All results, old and new, and the failures.
    """
    if on not in get_args(Where):
        raise ValueError(f"on must be one of {', '.join(map(repr, get_args(Where)))}, got {on!r}")
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    store, every = Store(folder), {cell.key: cell for cell in cells}
    missing = [cell for cell in every.values() if store.read(cell) is None]
    groups: dict[Hashable, list[Cell]] = {}
    for cell in missing:
        groups.setdefault(cell.key if together is None else together(cell), []).append(cell)
    failures: dict[str, str] = {}
    began, found = time.perf_counter(), len(every) - len(missing)
    tasks = [_Task(work, tuple(group), store.workshop(group)) for group in groups.values()]
    reports = _on_ray(tasks, workers, gpus) if on == "ray" else _locally(tasks, workers)
    for made, (cell, result, why) in enumerate(reports, 1):
        if result is None:
            failures[cell.key] = why
            store.fail(cell, why)
        else:
            store.write(cell, result)
        left = (time.perf_counter() - began) / made * (len(missing) - made)
        progress(Step(cell, None if result is not None else why, found + made, len(every), left))
    results = [result for cell in every.values() if (result := store.read(cell)) is not None]
    return Outcome(results, [(every[key], why) for key, why in failures.items()])


class _Task(NamedTuple):
    """What one process is given at a time."""

    work: Work
    cells: tuple[Cell, ...]
    folder: Path

    def run(self) -> Iterator[_Report]:
        """Report every cell as it is finished; those that are not when something goes wrong have failed."""
        waiting, failures = {cell.key: cell for cell in self.cells}, 0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for cell, result in self.work(self.cells, self.folder):
                if isinstance(result, Exception):
                    failures += 1
                    yield waiting.pop(cell.key), None, "".join(traceback.format_exception(result))
                else:
                    yield waiting.pop(cell.key), result, ""
            why = "the work ended without a result for this cell"
        except Exception:
            why = traceback.format_exc()
        for cell in waiting.values():
            yield cell, None, why
        if not waiting and not failures:
            shutil.rmtree(self.folder, ignore_errors=True)


_Report = tuple[Cell, Result | None, str]


# -- processes of this machine -----------------------------------------------------------------------------------------


def _serve(pipe: Any) -> None:
    """What a process does: take a task, report its cells, ask for the next."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what was begun in the background may not have it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        while (task := pipe.recv()) is not None:
            for report in task.run():
                pipe.send(report)
            pipe.send(None)
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        pass  # the run is over; what was begun is in the task's folder


def _end_with_parent() -> None:
    """End as Ctrl-C does when the run is gone: nobody would hear of what is done."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGINT)


@cache
def _context() -> Any:
    """How processes are made: where that is safe, as copies of one that has loaded what takes seconds."""
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["sttau.jobs.results", "torch._dynamo", "sklearn.metrics"])
    return context


class _Worker:
    """A process, and what it is doing."""

    def __init__(self) -> None:
        context = _context()
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.task: _Task | None = None
        self.waiting: dict[str, Cell] = {}

    def give(self, task: _Task) -> None:
        self.task, self.waiting = task, {cell.key: cell for cell in task.cells}
        self.pipe.send(task)


def _locally(tasks: Sequence[_Task], workers: int) -> Iterator[_Report]:
    queue, team = deque(tasks), [_Worker() for _ in range(min(workers, len(tasks)))]
    deaths: dict[str, int] = {}
    try:
        while True:
            for worker in team:
                if worker.task is None and queue:
                    worker.give(queue.popleft())
            busy = {worker.pipe: worker for worker in team if worker.task is not None}
            if not busy:
                return
            for pipe in connection.wait(list(busy)):
                worker = busy[pipe]
                try:
                    report = worker.pipe.recv()
                except (EOFError, ConnectionResetError):  # the process is gone, and with it what it was doing
                    worker.process.join()
                    lost = list(worker.waiting.values())
                    team[team.index(worker)] = _Worker()
                    for cell in lost:
                        deaths[cell.key] = deaths.get(cell.key, 0) + 1
                    assert worker.task is not None
                    again = tuple(cell for cell in lost if deaths[cell.key] < _TRIES)
                    if again:
                        queue.append(worker.task._replace(cells=again))
                    for cell in lost:
                        if deaths[cell.key] >= _TRIES:
                            code = worker.process.exitcode
                            yield cell, None, f"its process ended {_TRIES} times, the last time with exit code {code}"
                    continue
                if report is None:
                    worker.task = None
                else:
                    worker.waiting.pop(report[0].key, None)
                    yield report
    finally:
        for worker in team:
            if worker.task is None:
                with suppress(OSError):  # it may be gone
                    worker.pipe.send(None)
        deadline = time.monotonic() + _PATIENCE
        for worker in team:
            if worker.task is not None and not _told(worker):
                worker.process.terminate()
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()


def _told(worker: _Worker) -> bool:
    """Ask a busy process to end as Ctrl-C does: it finishes an update and leaves a checkpoint."""
    if worker.process.pid is None or not worker.process.is_alive():
        return True
    try:
        os.kill(worker.process.pid, signal.SIGINT)
    except (ProcessLookupError, ValueError):
        return False
    return True


# -- a Ray cluster -----------------------------------------------------------------------------------------------------


def _on_ray(tasks: Sequence[_Task], workers: int, gpus: float) -> Iterator[_Report]:
    try:
        import ray
    except ImportError as error:
        raise ImportError('on="ray" needs Ray: pip install "sttau[cluster]"') from error
    mine = not ray.is_initialized()
    if mine:
        address = os.environ.get("RAY_ADDRESS")
        options = {"address": address} if address else {"num_cpus": workers, "include_dashboard": False}
        ray.init(log_to_driver=False, configure_logging=False, **options)
    try:
        compute = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=_TRIES)(_reports)  # anew, if its process dies
        waiting = {compute.remote(task): task for task in tasks}
        while waiting:
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            task = waiting.pop(done)
            try:
                yield from ray.get(done)
            except ray.exceptions.RayError as error:
                for cell in task.cells:
                    yield cell, None, f"its process ended {_TRIES + 1} times: {error}"
    finally:
        if mine:
            ray.shutdown()


def _reports(task: _Task) -> list[_Report]:
    return list(task.run())
