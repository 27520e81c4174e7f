"""Trainings where something is wrong with the folder: it is full, read-only, or another process writes to it."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path

import torch

import sttau
from sttau.errors import CheckpointError
from sttau.files import write_atomically
from tests.faults.disks import make_read_only, mount_tmpfs, resize
from tests.faults.kills import ended, train, undisturbed
from tests.faults.processes import Outcome, count_lines, start, wait
from tests.training.tasks import make_model


def _in_process(name: str, work: partial[None], folder: Path) -> Outcome:
    """Do the work in a process of its own; it holds where nothing is raised."""
    errors = folder / "errors.txt"
    code = wait(start(work, errors))
    if code == 0:
        return Counter({name: 1, "right": 1}), []
    text = errors.read_text("utf-8") if errors.exists() else f"exit code {code}"
    if text.startswith("OSError: [Errno 1] unshare"):
        return Counter({name: 1, "not possible here": 1}), []
    return Counter({name: 1, "wrong": 1}), [f"{name}: {text[:300]}"]


def _fails(work: partial[None], number: int) -> bool:
    """Whether the work fails with this error of the operating system, which must name a file of the run."""
    try:
        work()
    except OSError as error:
        if error.errno != number or "run/" not in str(error):
            raise AssertionError(f"another error, or one that names no file: {error}") from error
        return True
    return False


def _check_same(place: Path, name: str) -> None:
    expected = undisturbed(train)
    assert ended(place) == expected, f"the run ended with other bits {name}"


def full_disk(chance: random.Random, folder: Path) -> Outcome:
    """The disk is full at a random moment: an error that names a file; with more room the run resumes."""
    undisturbed(train)

    def work() -> None:
        place, size = folder / "run", chance.randrange(16, 120) * 1024
        mount_tmpfs(place, size)
        for _ in range(50):
            if not _fails(partial(train, place), errno.ENOSPC):
                break
            size += 16 * 1024
            resize(place, size)
        _check_same(place, "after the disk was full")

    return _in_process("runs", partial(work), folder)


def file_size_limit(chance: random.Random, folder: Path) -> Outcome:
    """No file may be larger than a random limit (RLIMIT_FSIZE): writing fails in the middle, with EFBIG."""
    undisturbed(train)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def work() -> None:
        place = folder / "run"
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (chance.randrange(100, 30_000), hard))
        _fails(partial(train, place), errno.EFBIG)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert not list(place.glob(".*")), "part files were left"
        train(place)
        _check_same(place, "after a file had become too large")

    return _in_process("runs", partial(work), folder)


def read_only(chance: random.Random, folder: Path) -> Outcome:
    """The disk becomes read-only during a run: an error, nothing changed; afterwards the run resumes."""
    undisturbed(train)

    def work() -> None:
        place = folder / "disk"
        mount_tmpfs(place, 1 << 22)
        run, stop = place / "run", chance.randrange(3, 40)
        try:
            _train_until(run, stop)
        except KeyboardInterrupt:
            before = {path.name: path.read_bytes() for path in run.iterdir()}
            make_read_only(place)
            assert _fails(partial(train, run), errno.EROFS), "a run went on in a folder that cannot be written"
            assert {path.name: path.read_bytes() for path in run.iterdir()} == before
            resize(place, 1 << 22)  # writable again
        train(run)
        _check_same(run, "after its folder was read-only")
        make_read_only(place)
        model = sttau.load(run / "trained.safetensors")
        sttau.predict(model, torch.zeros(2, 3, 2), samples=2)

    return _in_process("runs", partial(work), folder)


def _train_until(folder: Path, number: int) -> None:
    from tests.training import tasks

    def stop(update: sttau.training.Update) -> None:
        if update.number == number:
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    tasks.train(make_model("dropout"), folder, callbacks=stop)


def two_trainings(chance: random.Random, folder: Path) -> Outcome:
    """Two processes train in one folder: the second is refused, or begins when the first has ended or was killed."""
    undisturbed(train)
    place, log = folder / "run", folder / "run" / "log.jsonl"
    errors = [folder / f"errors-{number}.txt" for number in (0, 1)]
    counts, found = Counter[str](runs=1), list[str]()
    children = [start(partial(train, place), errors[0])]
    lines = chance.randrange(0, 42)
    deadline = time.monotonic() + 60
    while lines and count_lines(log) < min(lines, 40) and time.monotonic() < deadline:
        time.sleep(0.001)
    if chance.random() < 0.3:
        os.kill(children[0], signal.SIGKILL)
        counts["first killed"] += 1
    children.append(start(partial(train, place), errors[1]))
    codes = [wait(child) for child in children]
    for code, path in zip(codes, errors, strict=True):
        refused = code == 1 and path.read_text("utf-8").startswith(CheckpointError.__name__)
        counts["refused" if refused else "finished" if code == 0 else "killed"] += 1
        if refused and "another run trains in this folder" not in path.read_text("utf-8"):
            found.append(f"two trainings: {path.read_text('utf-8')[:300]}")
        if not refused and code not in (0, -signal.SIGKILL):
            found.append(f"two trainings: {path.read_text('utf-8')[:300] if path.exists() else code}")
    if all(code != 0 for code in codes) and wait(start(partial(train, place), errors[0])) != 0:
        found.append("two trainings: none finished")
    elif ended(place) != undisturbed(train):
        found.append("two trainings: the run ended with other bits")
    return counts, found


def two_writers(chance: random.Random, folder: Path) -> Outcome:
    """Two processes write one path, one of them is killed: whoever reads sees one of the two contents, whole."""
    path, contents = folder / "file", [bytes([letter]) * chance.randrange(1, 300_000) for letter in b"ab"]
    write_atomically(path, contents[0])

    def write(content: bytes) -> None:
        while True:
            write_atomically(path, content)

    children = [start(partial(write, content), folder / "errors.txt") for content in contents]
    counts, found, deadline = Counter[str](runs=1), list[str](), time.monotonic() + chance.uniform(0.02, 0.2)
    while time.monotonic() < deadline:
        counts["reads"] += 1
        if path.read_bytes() not in contents:
            found.append("two writers: a part of a file was read")
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        counts["kills"] += 1
        if path.read_bytes() not in contents:
            found.append("two writers: a part of a file was left")
    if (folder / "errors.txt").exists():
        found.append(f"two writers: {(folder / 'errors.txt').read_text('utf-8')[:300]}")
    return counts, found


#: Conditions by name; each call is one run.
CONDITIONS = {
    "full disk (tmpfs)": full_disk,
    "limit on file sizes": file_size_limit,
    "read-only disk (tmpfs)": read_only,
    "two trainings in one folder": two_trainings,
    "two writers of one path": two_writers,
}
