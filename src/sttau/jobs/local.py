"""Runs tasks in processes of this machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing import connection, get_context, parent_process
from typing import Any

from sttau.jobs.cell import Cell
from sttau.jobs.task import MAX_ATTEMPTS, Report, Task

_SHUTDOWN_SECONDS = 60  # time that processes have to end after an interruption


def run_in_processes(tasks: Sequence[Task], workers: int) -> Iterator[Report]:
    """Run tasks in several processes; a task whose process died is run again."""
    queue, processes = deque(tasks), [_Worker() for _ in range(min(workers, len(tasks)))]
    deaths: dict[str, int] = {}
    try:
        while True:
            for worker in processes:
                if worker.task is None and queue:
                    worker.give(queue.popleft())
            busy = {worker.pipe: worker for worker in processes if worker.task is not None}
            if not busy:
                return
            for pipe in connection.wait(list(busy)):
                worker = busy[pipe]
                try:
                    report = worker.pipe.recv()
                except (EOFError, ConnectionResetError):  # the process died
                    worker.process.join()
                    lost = list(worker.waiting.values())
                    processes[processes.index(worker)] = _Worker()
                    for cell in lost:
                        deaths[cell.key] = deaths.get(cell.key, 0) + 1
                    assert worker.task is not None
                    again = tuple(cell for cell in lost if deaths[cell.key] < MAX_ATTEMPTS)
                    if again:
                        queue.append(worker.task._replace(cells=again))
                    for cell in lost:
                        if deaths[cell.key] >= MAX_ATTEMPTS:
                            code = worker.process.exitcode
                            yield (
                                cell,
                                None,
                                f"its process ended {MAX_ATTEMPTS} times, the last time with exit code {code}",
                            )
                    continue
                if report is None:
                    worker.task = None
                else:
                    worker.waiting.pop(report[0].key, None)
                    yield report
    finally:
        _end(processes)


class _Worker:
    """A process and its current task."""

    def __init__(self) -> None:
        context = _context()
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.task: Task | None = None
        self.waiting: dict[str, Cell] = {}

    def give(self, task: Task) -> None:
        self.task, self.waiting = task, {cell.key: cell for cell in task.cells}
        self.pipe.send(task)

    def interrupt(self) -> bool:
        """Send SIGINT, as Ctrl-C does, so that the process writes a checkpoint; return whether that was possible."""
        if self.process.pid is None or not self.process.is_alive():
            return True
        try:
            os.kill(self.process.pid, signal.SIGINT)
        except (ProcessLookupError, ValueError):
            return False
        return True


def _end(workers: Sequence[_Worker]) -> None:
    """End all processes: idle ones at once, busy ones after a checkpoint."""
    for worker in workers:
        if worker.task is None:
            with suppress(OSError):  # the process may have ended
                worker.pipe.send(None)
    deadline = time.monotonic() + _SHUTDOWN_SECONDS
    for worker in workers:
        if worker.task is not None and not worker.interrupt():
            worker.process.terminate()
        worker.process.join(max(0.0, deadline - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.pipe.close()


@cache
def _context() -> Any:
    """Return how processes are started: on Linux, forked from a server process that has imported slow modules."""
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["sttau.jobs.results", "torch._dynamo", "sklearn.metrics"])
    return context


def _serve(pipe: Any) -> None:
    """Main function of a process: receive tasks and report their cells."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes may ignore SIGINT
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        while (task := pipe.recv()) is not None:
            for report in task.run():
                pipe.send(report)
            pipe.send(None)
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        pass  # the run is over; unfinished files are in the task's folder


def _end_with_parent() -> None:
    """Send SIGINT to this process when its parent ends."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGINT)
