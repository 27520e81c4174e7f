"""Trainings that are killed at random moments and resumed: every run must end with the bits of an undisturbed one."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from sttau.rl import Settings, find_task, make_policy
from sttau.rl.training import train as train_policy
from sttau.training.checkpoints import newest_checkpoint
from tests.faults.mutations import damage
from tests.faults.processes import Outcome, count_lines, kill, start, wait
from tests.training import killed_runs

#: Updates between two checkpoints.
INTERVAL = 2


def train(folder: Path) -> None:
    """40 updates of a small ST-τ LSTM with dropout, validation and a moving average."""
    killed_runs.train(folder, "dropout")


def play(folder: Path) -> None:
    """12 updates of a small policy."""
    task = find_task("cartpole-mdp")
    policy = make_policy("st-tau", task, seed=0)
    train_policy(policy, task, Settings(episodes=24, batch=2), folder=folder, checkpoint_every=INTERVAL)
    policy.save(folder / "trained.safetensors")


def slow_disk(chance: random.Random) -> None:
    """Write files in pieces and wait in between, so that most of the time is spent on writing."""
    sync = os.fsync

    def write(path: Path, content: bytes) -> int:
        with path.open("wb", buffering=0) as file:
            for first in range(0, len(content), 4096):
                file.write(content[first : first + 4096])
                time.sleep(chance.uniform(0, 0.002))
        return len(content)

    def wait_and_sync(descriptor: int) -> None:
        time.sleep(chance.uniform(0, 0.01))
        sync(descriptor)

    Path.write_bytes = write  # type: ignore[method-assign,assignment]
    os.fsync = wait_and_sync  # type: ignore[assignment]


def clock_jumps(chance: random.Random) -> None:
    """Let the clock of the process jump by up to ten years, back and forth, whenever it is read."""
    clock = time.time

    def jump() -> float:
        return clock() + chance.uniform(-3e8, 3e8)

    time.time = jump
    time.time_ns = lambda: int(jump() * 1e9)


def set_times(folder: Path, chance: random.Random) -> None:
    """Give files random times, as clock jumps do."""
    for path in folder.iterdir():
        os.utime(path, (chance.uniform(0, 4e9),) * 2)


class Kind(NamedTuple):
    """What is killed: the work, and what a new process does before it."""

    work: Callable[[Path], None] = train
    prepare: Callable[[random.Random], None] = lambda chance: None
    between: Callable[[Path, random.Random], None] = lambda folder, chance: None
    damage: float = 0.0  # share of kills after which the newest checkpoint is damaged


#: Kinds of killed trainings; all of them are forked from a process that has loaded the library.
KINDS: dict[str, Kind] = {
    "training": Kind(),
    "training, newest checkpoint damaged after 30 % of kills": Kind(damage=0.3),
    "training, slow disk": Kind(prepare=slow_disk),
    "training, clock jumps": Kind(prepare=clock_jumps, between=set_times),
    "reinforcement learning": Kind(work=play),
}


def kill_one_run(kind: Kind, chance: random.Random, folder: Path) -> Outcome:
    """Kill a run at random moments until it ends.

    Returns:
        Counts of ``kills``, ``damaged`` checkpoints, ``updates lost`` (in the log, but after the newest checkpoint),
        and runs that ended with the ``same`` bits or ``other`` ones.
    """
    counts, found = Counter[str](), list[str]()
    place, errors, log = folder / "run", folder / "errors.txt", folder / "run" / "log.jsonl"

    def work(seed: float) -> None:
        kind.prepare(random.Random(seed))
        kind.work(place)

    while True:
        child = start(partial(work, chance.random()), errors)
        if not kill(child, log, chance):
            break
        counts["kills"] += 1
        state = newest_checkpoint(place)
        lost = max(0, count_lines(log) - (0 if state is None else state["number"]))
        counts["updates lost"] += lost
        if lost > INTERVAL and not kind.damage:  # a damaged checkpoint costs the updates since the one before it
            found.append(f"{lost} updates were lost, more than between two checkpoints")
        newest = sorted(place.glob("checkpoint-*.safetensors"))[-1:]
        if newest and chance.random() < kind.damage:
            newest[0].write_bytes(damage(newest[0].read_bytes(), chance))
            counts["damaged"] += 1
        if place.exists():
            kind.between(place, chance)
    if errors.exists():
        found.append(f"a run failed: {errors.read_text('utf-8')[:300]}")
    same = (place / "trained.safetensors").exists() and ended(place) == undisturbed(kind.work)
    counts["same" if same else "other"] += 1
    if not same:
        found.append("a run ended with other bits than an undisturbed one")
    return counts, found


def ended(folder: Path) -> tuple[bytes, list[dict[str, Any]]]:
    """The trained weights, and the log without the time that was needed."""
    lines = map(json.loads, (folder / "log.jsonl").read_bytes().splitlines())
    log = [{name: value for name, value in line.items() if name != "seconds"} for line in lines]
    return (folder / "trained.safetensors").read_bytes(), log


@cache
def undisturbed(work: Callable[[Path], None]) -> tuple[bytes, list[dict[str, Any]]]:
    """What a run ends with that nobody disturbs."""
    folder = Path(mkdtemp(prefix="sttau-faults-"))
    errors = folder / "errors.txt"
    assert wait(start(partial(work, folder / "run"), errors)) == 0, errors.read_text("utf-8")
    return ended(folder / "run")
