"""The report of an update, and the log of a run as JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sttau.files import write_atomically


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


def read_log(path: str | os.PathLike[str]) -> list[Update]:
    """Read the log of a training run; an incomplete last line is left out.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with JsonLines(f"{folder}/log.jsonl") as log:
        ...         log(Update(1, 10, loss=0.7, temperature=(1.0,)))
        ...     read_log(f"{folder}/log.jsonl")[0].loss
        0.7
    """
    return list(_read_lines(Path(path)))


def _read_lines(path: Path) -> Iterator[Update]:
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n"):
        try:
            entry = json.loads(line)
            yield Update(**entry | {"temperature": tuple(entry["temperature"])})
        except (ValueError, TypeError, KeyError):
            return


class JsonLines:
    """A log with one JSON line per update, flushed at once.

    Args:
        path: Path of the file; an existing log is continued.
        keep: Number of the last update to keep; later ones are removed, since they are made again.
    """

    def __init__(self, path: str | os.PathLike[str], keep: int = 0) -> None:
        path = Path(path)
        self.updates = [update for update in _read_lines(path) if update.number <= keep]
        write_atomically(path, b"".join(map(_line, self.updates)))
        self._file = path.open("ab")

    def __call__(self, update: Update) -> None:
        """Append an update."""
        self._file.write(_line(update))
        self._file.flush()

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _line(update: Update) -> bytes:
    return json.dumps(asdict(update)).encode() + b"\n"
