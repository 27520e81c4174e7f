"""Checkpoints: the whole state of a run in one file with a checksum, written atomically; the last two are kept.

Only files that this module wrote are ever removed. A checkpoint that is damaged is renamed, one that cannot be read
stops the run, and a file that only has a checkpoint's name stays as it is.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from sttau.errors import CheckpointError, DamagedCheckpointError, reading
from sttau.files import set_aside
from sttau.formats import Format, Header, Tensors
from sttau.models.saved import adapted_name

_KEPT = 2
_NAME = re.compile(r"checkpoint-(\d{8,})\.safetensors")
_MARK = b'"sttau":"{'  # begins the header of every file in the library's format

_log = logging.getLogger(__name__)


_RENAMED_OPTIONS = {
    "average": "ema_decay",
    "goal": "mode",
    "optimiser": "optimizer",
    "sorted_batches": "bucket_batches",
    "warm_up": "warmup",
}


def _from_version_1(header: Header, tensors: Tensors) -> tuple[Header, Tensors]:
    """Version 1 had other names of options, of the moving average, and of the weights of nn.LSTM and nn.GRU."""
    state = _unpack(header["value"], tensors)
    settings = state["settings"]
    for old, new in _RENAMED_OPTIONS.items():
        settings[new] = settings.pop(old)
    plain = any(f"(layer): {kind}(" in settings["model"] for kind in ("LSTM", "GRU"))
    for name in ("model", "best_weights"):
        if plain and state[name] is not None:
            state[name] = {adapted_name(weight): value for weight, value in state[name].items()}
    del settings["model"]  # its repr then; the shapes of the weights are checked when they are loaded
    state["ema"], state["optimizer"] = state.pop("mean"), state.pop("optimiser")
    found: dict[str, Tensor] = {}
    return {"value": _pack(state, found, "")} | {"format": header["format"]}, found


CHECKPOINT_FORMAT = Format("sttau.checkpoint", 2, {1: _from_version_1}, 1, CheckpointError, DamagedCheckpointError)


def checkpoint_path(folder: Path, number: int) -> Path:
    """Return the path of the checkpoint after an update."""
    return folder / f"checkpoint-{number:08d}.safetensors"


def write_checkpoint(path: Path, value: Any) -> None:
    """Write the state of a run, and remove all checkpoints but this and the one before.

    Args:
        path: Path from :func:`checkpoint_path`.
        value: Dicts, lists and tuples of tensors, numbers, strings and None.

    Example:
        >>> import tempfile
        >>> import torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_checkpoint(checkpoint_path(Path(folder), 5), {"weight": torch.ones(2), "rate": 0.1})
        ...     newest_checkpoint(Path(folder))
        {'weight': tensor([1., 1.]), 'rate': 0.1}
    """
    tensors: dict[str, Tensor] = {}
    packed = _pack(value, tensors, "")
    if path.exists() and not _is_ours(path):
        _log.warning("%s was not written by sttau; it is now %s", path, set_aside(path).name)
    CHECKPOINT_FORMAT.write(path, {"value": packed}, tensors)
    older = [other for other in _paths(path.parent) if _number(other) < _number(path)]
    for old in older[_KEPT - 1 :]:
        if _is_ours(old):
            old.unlink(missing_ok=True)


def newest_checkpoint(folder: Path) -> Any:
    """Return the value of the newest undamaged checkpoint, or None.

    Damaged checkpoints are logged; one that cannot be read at all is an error.
    """
    for path in _paths(folder):
        try:
            return read_checkpoint(path)
        except DamagedCheckpointError as error:
            _log.warning("%s; the checkpoint before it is used", error)
    return None


def read_checkpoint(path: Path) -> Any:
    """Return the value written to a checkpoint, with its tensors on the CPU; an error if a single bit is wrong."""
    if path.is_dir():
        raise DamagedCheckpointError(f"{path} is a folder, not a checkpoint")
    try:
        header, tensors = CHECKPOINT_FORMAT.read(path, max_bytes=None)
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint {path} cannot be read: {error.strerror or error}. Make it readable, or move it away to "
            "use the checkpoint before it."
        ) from error
    with reading(path, CheckpointError):
        return _unpack(header["value"], {name: tensor.clone() for name, tensor in tensors.items()})


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one run at a time write to a folder: an error if another process or thread trains there.

    The folder itself is locked, so that nothing is left behind; the lock ends with the process, however that ends.
    Systems and file systems that cannot lock a folder, such as Windows, do not notice a second run.
    """
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise CheckpointError(
                    f"{folder}: another run trains in this folder. Wait until it ends, or use another folder."
                ) from error
        yield
    finally:
        os.close(descriptor)


def clear_leftovers(folder: Path, number: int) -> None:
    """Remove part files of a process that was killed while writing; rename damaged checkpoints after this update."""
    for part in (*folder.glob(".checkpoint-*.part"), *folder.glob(".log.jsonl.*.part")):
        part.unlink(missing_ok=True)
    for path in _paths(folder):
        if _number(path) > number and _is_ours(path):
            _log.warning("%s is now called %s", path, set_aside(path).name)


def _paths(folder: Path) -> list[Path]:
    """The checkpoints of a folder, the newest first."""
    paths = folder.iterdir() if folder.exists() else ()  # not glob, which takes an unreadable folder for an empty one
    return sorted((path for path in paths if _NAME.fullmatch(path.name)), key=_number, reverse=True)


def _number(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1])


def _is_ours(path: Path) -> bool:
    """Whether a file begins as this library writes it, be it damaged further on."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return _MARK in file.read(4096)


def _pack(value: Any, tensors: dict[str, Tensor], name: str) -> Any:
    """Return the value as JSON, with its tensors collected by name. Every JSON object names its kind."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, _pack(part, tensors, f"{name}/{key}")] for key, part in value.items()]}
    if isinstance(value, (list, tuple)):
        parts = [_pack(part, tensors, f"{name}/{place}") for place, part in enumerate(value)]
        return parts if isinstance(value, list) else {"tuple": parts}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}, found at {name}")


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpack(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    (kind, content), *_ = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "tuple":
        return tuple(_unpack(part, tensors) for part in content)
    return {key: _unpack(part, tensors) for key, part in content}
