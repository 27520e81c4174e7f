"""Work in forked processes, whose errors come back, and which are killed at random moments."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

#: Counts by name, and a description of each problem.
Outcome = tuple[Counter[str], list[str]]


def start(work: Callable[[], object], errors: Path) -> int:
    """Do the work in a new process; if it fails, ``errors`` holds the type and the text of the error."""
    child = os.fork()
    if child:
        return child
    try:
        torch.set_num_threads(1)
        work()
        os._exit(0)
    except BaseException as error:
        errors.write_text(f"{type(error).__name__}: {error}", "utf-8")
        os._exit(1)


def wait(child: int, seconds: float = 120) -> int | None:
    """Return the exit code of a process, negative for a signal; None if it had to be killed for taking too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def kill(child: int, log: Path, chance: random.Random, at_once: float = 0.2) -> bool:
    """Kill a process after a few more lines of its log, at any moment between two; whether it had not ended before."""
    lines = 0 if chance.random() < at_once else count_lines(log) + chance.randrange(1, 12)
    while lines and count_lines(log) < lines:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)  # not yet waited for, so the number is still its own
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def count_lines(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0
