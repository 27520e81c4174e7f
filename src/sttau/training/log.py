"""The report of an update, and the log of a run as JSON lines."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sttau.files import naming, write_atomically

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Update:
    """One update of the weights, as callbacks and the log receive it."""

    number: int  # from 1
    of: int  # updates in all
    loss: float
    temperature: tuple[float, ...]  # τ of each layer and direction after the update; empty for a layer without states
    validation: float | None = None  # the monitored metric, where there was a validation
    gradient_norm: float | None = None  # before clipping
    metrics: dict[str, float] = field(default_factory=dict)  # all validation metrics


#: Called with every update; training stops where it returns True.
Callback = Callable[[Update], bool | None]


def read_log(path: str | os.PathLike[str], last: int | None = None, *, thinned: bool = False) -> list[Update]:
    """Read the log of a training run. An incomplete last line is left out; if other lines are missing, that is logged.

    Args:
        path: Path of the file; a log that does not exist is empty.
        last: Number of the last update to return, which must be in the log; all updates by default.
        thinned: Whether updates were left out on purpose, so that none counts as missing.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with JsonLines(f"{folder}/log.jsonl") as log:
        ...         log(Update(1, 10, loss=0.7, temperature=(1.0,)))
        ...     read_log(f"{folder}/log.jsonl")[0].loss
        0.7
    """
    found = _read(Path(path), last)
    length = max(found, default=0) if last is None else last
    holes = length - len(found)
    if holes and not thinned:
        first = next(number for number in range(1, len(found) + 2) if number not in found)
        _log.warning("the log %s has holes: %d of %d updates are missing, first %d", path, holes, length, first)
    return list(found.values())


def _read(path: Path, last: int | None) -> dict[int, Update]:
    """Return the updates that can be read, by number and in order."""
    found: dict[int, Update] = {}
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            update = _update_from(json.loads(line))
            found[update.number] = update
    return {number: found[number] for number in sorted(found) if last is None or number <= last}


def _update_from(entry: Any) -> Update:
    """Return an update from its fields, after checking the types of those that callers compute with."""
    update = Update(**entry | {"temperature": tuple(map(float, entry["temperature"]))})
    numbers = [update.loss, *update.metrics.values(), update.validation or 0.0, update.gradient_norm or 0.0]
    if type(update.number) is not int or update.number < 1 or any(type(n) not in (int, float) for n in numbers):
        raise TypeError("a field has another type")
    return update


class JsonLines:
    """A log with one JSON line per update, flushed at once.

    Args:
        path: Path of the file; an existing log is continued.
        keep: Number of the last update to keep; later ones are removed, since they are made again.
    """

    def __init__(self, path: str | os.PathLike[str], keep: int = 0) -> None:
        path = Path(path)
        self.updates = list(_read(path, keep).values())
        write_atomically(path, b"".join(map(_line, self.updates)))
        self._path, self._file = path, path.open("ab")

    def __call__(self, update: Update) -> None:
        """Append an update."""
        with naming(self._path):
            self._file.write(_line(update))
            self._file.flush()

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        with naming(self._path):
            self._file.close()


def _line(update: Update) -> bytes:
    return json.dumps(asdict(update)).encode() + b"\n"
