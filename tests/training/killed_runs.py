"""Starts training in processes of its own and kills them; see test_resume.py. PyTorch is loaded once, then forked."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import sttau.files
from sttau.engine import choose
from tests.training import tasks


def start(work: Callable[[], object]) -> int:
    """Do the work in a new process."""
    child = os.fork()
    if child:
        return child
    torch.set_num_threads(1)
    work()
    os._exit(0)


def train(folder: Path, layer: str) -> None:
    model = tasks.make_model(layer)
    tasks.train(model, folder, **(tasks.weighted_options() if folder.name.startswith("weighted") else {}))
    model.save(folder / "trained.safetensors")


def wait_until(folder: Path, lines: int) -> None:
    """Wait for so many updates."""
    log = folder / "log.jsonl"
    while not log.exists() or log.read_bytes().count(b"\n") < lines:
        time.sleep(0.001)


def kill_at_random_moments(folder: Path, layer: str, moments: tuple[int, ...] = (0, 1, 8, 9, 17, 28)) -> int:
    chance, killed = random.Random(0), 0
    for lines in moments:
        child = start(lambda: train(folder, layer))
        if lines:
            wait_until(folder, lines)
        time.sleep(chance.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)  # on a busy machine it may have come to its end
    finish(folder, layer)
    return killed


def kill_while_writing(folder: Path, layer: str) -> list[list[str]]:
    """Kill in the middle of a checkpoint: half written; whole but not in place; in place, but the oldest not removed.

    Returns:
        The files that were left each time.
    """
    write, replace = Path.write_bytes, os.replace

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def write_half(path: Path, content: bytes) -> int:
        if "checkpoint-00000010" in path.name:
            write(path, content[: len(content) // 2])
            die()
        return write(path, content)

    def replace_never(part: Path, path: Path) -> None:
        if "checkpoint-00000020" in path.name:
            die()
        replace(part, path)

    def replace_and_die(part: Path, path: Path) -> None:
        replace(part, path)
        if "checkpoint-00000030" in path.name:
            die()

    def train_with(writing: Callable[..., int], replacing: Callable[..., None]) -> None:
        Path.write_bytes = writing  # type: ignore[method-assign]
        sttau.files.os.replace = replacing  # type: ignore[attr-defined]
        train(folder, layer)

    left: list[list[str]] = []
    for ways in ((write_half, replace), (write, replace_never), (write, replace_and_die)):
        child = start(lambda ways=ways: train_with(*ways))  # type: ignore[misc]
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        left.append(sorted(path.name for path in folder.iterdir()))
    finish(folder, layer)
    return left


def finish(folder: Path, layer: str) -> None:
    _, status = os.waitpid(start(lambda: train(folder, layer)), 0)
    assert status == 0


def load_all() -> None:
    """Load what is put off until it is needed, without computing anything, so that new processes start quickly."""
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
    choose("recurrence", torch.device("cpu"), torch.float32, states=3, size=8)


if __name__ == "__main__":
    load_all()
    place, kind = Path(sys.argv[1]), "dropout"
    finish(place / "left alone", kind)
    killed = kill_at_random_moments(place / "killed", kind)
    finish(place / "weighted, left alone", kind)
    kill_at_random_moments(place / "weighted, killed", kind, (9, 20))
    left = kill_while_writing(place / "killed while writing", kind)
    print(json.dumps({"killed": killed, "left": left}))
