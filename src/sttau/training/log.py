"""What training reports, and where it is written down: JSON lines, and TensorBoard for those who have it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sttau.files import write_atomically


@dataclass(frozen=True)
class Update:
    """One update of the weights, as it is reported and logged."""

    number: int  # from 1
    of: int
    loss: float
    temperature: tuple[float, ...]  # τ of each layer and direction after the update; empty for a layer without states
    validation: float | None = None  # the watched value, where there was a validation
    gradient_norm: float | None = None  # before clipping
    metrics: dict[str, float] = field(default_factory=dict)  # all that the validation returned


def read_log(path: str | os.PathLike[str]) -> list[Update]:
    """Read the log of a training run; a last line that was never finished is left out.

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
    """A log of one JSON line an update, written out at once.

    Args:
        path: of the file; it is continued where it exists.
        keep: updates beyond this number are cut off: they are made again from an earlier checkpoint.
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


class TensorBoard:
    """Writes loss, validation and τ for TensorBoard; hand it to ``fit`` as ``callbacks``. Needs ``sttau[tensorboard]``.

    A run that is resumed hides what it had written beyond its checkpoint.

    Args:
        folder: for TensorBoard's files.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("TensorBoard is not installed: pip install 'sttau[tensorboard]'") from error
        self._make: Any = SummaryWriter
        self._folder = str(folder)
        self._writer: Any = None

    def __call__(self, update: Update) -> None:
        """Write an update."""
        if self._writer is None:
            self._writer = self._make(self._folder, purge_step=update.number)
        values = {"loss": update.loss, "gradient norm": update.gradient_norm}
        values |= {f"temperature/{place}": value for place, value in enumerate(update.temperature)}
        values |= {f"validation/{name}": value for name, value in update.metrics.items()}
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, update.number)
        if update.metrics or update.number == update.of:
            self._writer.flush()

    def close(self) -> None:
        """Write out what is left."""
        if self._writer is not None:
            self._writer.close()
