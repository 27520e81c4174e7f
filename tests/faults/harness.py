"""Faults on purpose, and what becomes of them: ``python -m tests.faults.harness``, or ``make faults``.

Files are damaged at random and read; processes that train are killed at random, with their checkpoints damaged in
between, and resumed. The outcomes are counted. ``outcomes.json`` next to this file holds those of the last whole run.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sttau.errors import SttauError
from sttau.files import write_atomically
from sttau.jobs import hardware, versions
from tests.faults.mutations import damage
from tests.faults.readers import READERS, Reader

OUTCOMES = Path(__file__).with_name("outcomes.json")


class HangError(Exception):
    """Reading takes too long."""


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raise an error if the code inside takes too long."""

    def stop(*_: object) -> None:
        raise HangError(f"it takes more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def read_damaged(name: str, reader: Reader, files: int, seed: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """Damage a file in many ways and read it.

    Returns:
        Counts of ``refused`` (an error of the library, or of the operating system), ``same`` (the same value was read),
        ``other`` (another value was read), ``silent`` (another value, though a checksum should have told) and
        ``leaked`` (any other exception), and a description of each of the last two.
    """
    chance, path = random.Random(f"{name} {seed}"), folder / "checkpoint-00000001.safetensors"
    reader.write(path)
    content, value = path.read_bytes(), repr(reader.read(path))
    counts, found = Counter[str](), []
    for number in range(files):
        path.write_bytes(reader.damage(content, chance))
        try:
            with limit(20):
                same = repr(reader.read(path)) == value
            outcome = "same" if same else "silent" if reader.finds_all else "other"
        except (SttauError, OSError):
            outcome = "refused"
        except Exception as error:
            outcome = "leaked"
            found.append(f"{name}, file {number}: {type(error).__name__}: {str(error)[:200]}")
        if outcome == "silent":
            found.append(f"{name}, file {number}: another value was read")
        counts[outcome] += 1
    return counts, found


def kill_trainings(kills: int, seed: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """Kill a training at random moments until it ends, sometimes with its newest checkpoint damaged in between.

    Returns:
        Counts of ``kills``, ``damaged`` checkpoints, and runs that ended with the ``same`` bits or ``other`` ones.
    """
    from tests.training.killed_runs import finish, load_all, start, train

    load_all()
    chance, counts, found = random.Random(seed), Counter[str](), []
    finish(folder / "undisturbed", "dropout")
    expected = _ended(folder / "undisturbed")
    while counts["kills"] < kills:
        place = folder / f"run-{counts['same'] + counts['other']}"
        while True:
            child = start(lambda place=place: train(place, "dropout"))  # type: ignore[misc]
            if not _kill(child, place / "log.jsonl", chance):
                break
            counts["kills"] += 1
            newest = sorted(place.glob("checkpoint-*.safetensors"))[-1:]
            if newest and chance.random() < 0.3:
                newest[0].write_bytes(damage(newest[0].read_bytes(), chance))
                counts["damaged"] += 1
            if counts["kills"] >= kills:
                finish(place, "dropout")
                break
        same = _ended(place) == expected
        counts["same" if same else "other"] += 1
        if not same:
            found.append(f"the run in {place.name} ended with other bits")
    return counts, found


def _kill(child: int, log: Path, chance: random.Random) -> bool:
    """Kill a process after a few more updates, at any moment between them; return whether it had not ended before."""
    target = None
    if chance.random() < 0.8:  # else at once, while it starts
        target = (log.stat().st_size if log.exists() else 0) + 150 * chance.randrange(1, 12)
    while target is not None and not (log.exists() and log.stat().st_size >= target):
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _ended(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "trained.safetensors").read_bytes(), (folder / "log.jsonl").read_bytes()


def main() -> int:
    """Run everything and write the outcomes; the exit code is 1 if there is anything silent, leaked or lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=50_000, help="Number of damaged files, over all readers.")
    parser.add_argument("--kills", type=int, default=1_000, help="Number of killed processes.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of all faults.")
    parser.add_argument("--out", type=Path, default=OUTCOMES, help="File for the outcomes.")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    outcomes: dict[str, Any] = {"seed": options.seed, "versions": versions(), "hardware": hardware(), "files": {}}
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:  # first: a process that has computed in threads cannot be forked
        counts, found = kill_trainings(options.kills, options.seed, Path(folder))
        outcomes["killed trainings"] = dict(sorted(counts.items()))
        problems += found
        print(f"killed trainings: {dict(counts)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, reader in READERS.items():
            counts, found = read_damaged(name, reader, options.files // len(READERS), options.seed, Path(folder))
            outcomes["files"][name] = dict(sorted(counts.items()))
            problems += found
            print(f"{name}: {dict(counts)}", flush=True)
    outcomes["problems"] = problems
    write_atomically(options.out, json.dumps(outcomes, indent=1, ensure_ascii=False).encode() + b"\n")
    print("\n".join(problems[:50]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
