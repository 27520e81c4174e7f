"""Processes that work together, one of which is killed: ranks of a training, local workers and workers of Ray."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from sttau.jobs import Backend, Cell, per_cell, run_cells
from sttau.training.distributed import ProcessLostError
from tests.faults.kills import ended, train
from tests.faults.processes import Outcome, count_lines, start, wait
from tests.jobs.runner_work import result

ROOT = Path(__file__).parents[2]


def _start_ranks(place: Path, folder: Path) -> list[int]:
    """Fork two ranks that train together over gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def work(rank: int) -> None:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        train(place) if rank == 0 else train_quietly(place)

    return [start(partial(work, rank), folder / f"errors-{rank}.txt") for rank in (0, 1)]


def train_quietly(folder: Path) -> None:
    """Train as a rank that does not write the model."""
    from tests.training import tasks

    tasks.train(tasks.make_model("dropout"), folder)


@cache
def _undisturbed() -> Any:
    folder = Path(mkdtemp(prefix="sttau-faults-"))
    assert [wait(child) for child in _start_ranks(folder / "run", folder)] == [0, 0]
    return ended(folder / "run")


def kill_ranks(chance: random.Random, folder: Path) -> Outcome:
    """Kill one of two ranks at random moments: the other says so and ends; both resume and end with the same bits."""
    expected = _undisturbed()
    counts, found, place, log = Counter[str](), list[str](), folder / "run", folder / "run" / "log.jsonl"
    while True:
        ranks, before = _start_ranks(place, folder), count_lines(log)
        lines = before + chance.randrange(1, 12)  # at least one update: both have joined
        victim = chance.randrange(2)
        over = False
        while not over and not (count_lines(log) >= lines and count_lines(log) != before):
            over = os.waitid(os.P_PID, ranks[0], os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            time.sleep(0.001)
        if not over:
            time.sleep(chance.uniform(0, 0.02))
            os.kill(ranks[victim], signal.SIGKILL)
        codes = [wait(rank, 60) for rank in ranks]
        if codes == [0, 0]:
            break
        if codes[victim] == -signal.SIGKILL and not over:
            counts["kills"] += 1
        errors = folder / f"errors-{1 - victim}.txt"
        text = errors.read_text("utf-8") if errors.exists() else f"exit code {codes[1 - victim]}"
        if codes[1 - victim] == 1 and text.startswith(ProcessLostError.__name__):
            counts["other rank said so"] += 1
        elif codes[1 - victim] == 0:
            counts["other rank had ended"] += 1
        else:
            found.append(f"ranks: the other rank ended with {text[:300]}")
        errors.unlink(missing_ok=True)
        if len(found) > 5:
            return counts, found
    same = ended(place) == expected
    counts["same" if same else "other"] += 1
    if not same:
        found.append("ranks: the run ended with other bits")
    return counts, found


def kill_torchrun(chance: random.Random, folder: Path) -> Outcome:
    """Kill a rank under the command torchrun: it exits with an error, and the same command finishes the run."""
    counts, found, place = Counter[str](), list[str](), folder / "ranks"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "tests.faults.rank", str(place)]
    for attempt in range(2):
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if attempt == 0:
            log, lines = place / "run" / "log.jsonl", chance.randrange(1, 30)
            while count_lines(log) < lines and process.poll() is None:
                time.sleep(0.001)
            victim = int((place / f"pid-{chance.randrange(2)}").read_text())
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                counts["kills"] += 1
        _, text = process.communicate(timeout=300)
        if (process.returncode == 0) != (attempt == 1):
            found.append(f"torchrun: attempt {attempt} ended with {process.returncode}: {text[-300:]}")
    same = not found and ended(place / "run") == _undisturbed()
    counts["same" if same else "other"] += 1
    if not same:
        found.append("torchrun: the run ended with other bits")
    return counts, found


def sleepy(cell: Cell, folder: Path) -> Any:
    """Leave the number of the process, and take a while."""
    mark = Path(cell.settings["place"]) / f"worker-{cell.seed}"
    mark.write_text(str(os.getpid()))
    time.sleep(cell.settings["seconds"])
    mark.unlink(missing_ok=True)
    return result(cell)


@contextmanager
def _killing(chance: random.Random, place: Path, kills: int, counts: Counter[str]) -> Iterator[None]:
    """Kill random workers, each cell's at most once, while the code inside runs."""
    over, killed = threading.Event(), set[str]()

    def work() -> None:
        while not over.wait(chance.uniform(0.05, 0.4)) and counts["kills"] < kills:
            marks = [mark for mark in place.glob("worker-*") if mark.name not in killed]
            if marks:
                mark = chance.choice(sorted(marks))
                with suppress(OSError, ValueError):
                    os.kill(int(mark.read_text()), signal.SIGKILL)
                    killed.add(mark.name)
                    counts["kills"] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def kill_workers(on: Backend, chance: random.Random, folder: Path) -> Outcome:
    """Kill workers that compute cells: all cells have their results at the end, each once."""
    counts, found = Counter[str](), list[str]()
    settings = {"place": str(folder), "seconds": 0.3}
    cells = [Cell("e", "d", "m", seed, settings) for seed in range(12)]
    with _killing(chance, folder, 5, counts):
        outcome = run_cells(cells, per_cell(sleepy), folder / "cells", on=on, workers=2)
    same = sorted(each.metrics["square"] for each in outcome.results) == [seed**2 for seed in range(12)]
    counts["same" if same and not outcome.failures else "other"] += 1
    if not same or outcome.failures:
        found.append(f"workers on {on}: {json.dumps([text for _, text in outcome.failures])[:300]}")
    return counts, found


def kill_ray_workers(chance: random.Random, folder: Path) -> Outcome:
    """Kill workers of Ray."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])  # of the workers
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    return kill_workers("ray", chance, folder)
