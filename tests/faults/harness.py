"""Faults on purpose, and what becomes of them: ``python -m tests.faults.harness``, or ``make faults``.

Processes are killed at random and resumed, disks are full, slow or read-only, and files are damaged at random and read.
The outcomes are counted. ``outcomes.json`` next to this file holds those of the last whole run. A run writes each
outcome to ``progress.jsonl`` as it goes; after an interruption, the same command continues it.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from sttau.errors import SttauError
from sttau.files import write_atomically
from sttau.jobs import hardware, versions
from tests.faults.processes import Outcome
from tests.faults.readers import READERS, Reader
from tests.faults.requests import REQUESTS

OUTCOMES = Path(__file__).with_name("outcomes.json")
PROGRESS = OUTCOMES.with_name("progress.jsonl")

_BLOCK = 250  # damaged files per line of progress


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


def read_damaged(reader: Reader, files: int, chance: random.Random, folder: Path) -> Outcome:
    """Damage a file in many ways and read it.

    Returns:
        Counts of ``files``, of those ``refused`` (an error of the library, or of the operating system), ``same`` (the
        same value was read), ``other`` (another value was read), ``silent`` (another value, though a checksum should
        have told) and ``leaked`` (any other exception), and a description of each of the last two.
    """
    path = folder / reader.name
    reader.write(path)
    content, value = path.read_bytes(), repr(reader.read(path))
    counts, found = Counter[str](), list[str]()
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
            found.append(f"file {number}: {type(error).__name__}: {str(error)[:200]}")
        if outcome == "silent":
            found.append(f"file {number}: another value was read")
        counts["files"] += 1
        counts[outcome] += 1
    return counts, found


class Part(NamedTuple):
    """A part of the harness: one unit of its work, repeated until a count reaches its goal."""

    group: str
    name: str
    unit: Callable[[random.Random, Path], Outcome]
    counted: str
    goal: int


def parts(kills: int, runs: int, files: int) -> list[Part]:
    """All parts. Those that fork come first: a process that has threads, such as those of Ray, cannot be forked."""
    from tests.faults import groups
    from tests.faults.conditions import CONDITIONS
    from tests.faults.kills import KINDS, kill_one_run

    shares = dict.fromkeys(KINDS, 0.15) | {"training": 0.3}
    forked: list[tuple[str, Callable[[random.Random, Path], Outcome], float]] = [
        *((name, partial(kill_one_run, kind), shares[name]) for name, kind in KINDS.items()),
        ("one of two ranks", groups.kill_ranks, 0.06),
    ]
    threaded: list[tuple[str, Callable[[random.Random, Path], Outcome], float]] = [
        ("one of two ranks, torchrun", groups.kill_torchrun, 0.004),
        ("local workers", partial(groups.kill_workers, "local"), 0.02),
        ("Ray workers", groups.kill_ray_workers, 0.02),
    ]
    sent = {name: partial(read_damaged, reader, min(_BLOCK, files)) for name, reader in REQUESTS.items()}
    blocks = {name: partial(read_damaged, reader, min(_BLOCK, files)) for name, reader in READERS.items()}
    return [
        *(Part("kills", name, unit, "kills", round(share * kills)) for name, unit, share in forked),
        *(Part("conditions", name, unit, "runs", runs) for name, unit in CONDITIONS.items()),
        *(Part("kills", name, unit, "kills", round(share * kills)) for name, unit, share in threaded),
        *(Part("files", name, unit, "files", -(-files // len(READERS))) for name, unit in blocks.items()),
        *(Part("requests", name, unit, "files", -(-files // (5 * len(REQUESTS)))) for name, unit in sent.items()),
    ]


def run(part: Part, seed: int, progress: Path) -> tuple[Counter[str], list[str]]:
    """Do the units of a part that are not done yet, and return the outcome of all of them."""
    counts, found, done = Counter[str](), list[str](), 0
    for line in progress.read_text("utf-8").splitlines() if progress.exists() else ():
        entry = json.loads(line)
        if (entry["seed"], entry["group"], entry["name"]) == (seed, part.group, part.name):
            counts, found, done = counts + Counter(entry["counts"]), found + entry["problems"], done + 1
    while counts[part.counted] < part.goal:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="sttau-faults-") as folder:
            more, problems = part.unit(random.Random(f"{seed} {part.group} {part.name} {done}"), Path(folder))
        problems = [f"{part.name}, unit {done}: {problem}" for problem in problems]
        entry = {"seed": seed, "group": part.group, "name": part.name, "unit": done, "counts": more}
        entry |= {"problems": problems, "seconds": round(time.monotonic() - began, 1)}
        with progress.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        counts, found, done = counts + more, found + problems, done + 1
        if more["not possible here"]:
            break
    return counts, found


def main() -> int:
    """Run everything and write the outcomes; the exit code is 1 if there is anything silent, leaked or lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=50_000, help="Number of damaged files, over all readers.")
    parser.add_argument("--kills", type=int, default=1_000, help="Number of kills, over all kinds.")
    parser.add_argument("--runs", type=int, default=50, help="Number of runs under each condition.")
    parser.add_argument("--only", default="", help="Begin of the names of the parts to run, as group/name.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of all faults.")
    parser.add_argument("--progress", type=Path, default=PROGRESS, help="File for the outcomes so far.")
    parser.add_argument("--out", type=Path, default=OUTCOMES, help="File for the outcomes.")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from tests.training.killed_runs import load_all

    load_all()
    outcomes: dict[str, Any] = {"seed": options.seed, "versions": versions(), "hardware": hardware()}
    problems: list[str] = []
    for part in parts(options.kills, options.runs, options.files):
        if not f"{part.group}/{part.name}".startswith(options.only):
            continue
        counts, found = run(part, options.seed, options.progress)
        outcomes.setdefault(part.group, {})[part.name] = dict(sorted(counts.items()))
        problems += found
        print(f"{part.group}, {part.name}: {dict(counts)}", flush=True)
    outcomes["problems"] = problems
    write_atomically(options.out, json.dumps(outcomes, indent=1, ensure_ascii=False).encode() + b"\n")
    print("\n".join(problems[:50]))
    return 1 if problems else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # Ray and gloo may have threads left
