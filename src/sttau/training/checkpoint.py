"""Checkpoints: everything a run is, in one safetensors file with a checksum. Written in one step; the last two stay."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor

from sttau.files import write_atomically

_FORMAT = "sttau.checkpoint"
_VERSION = 1
_KEPT = 2

_log = logging.getLogger(__name__)


class DamagedError(ValueError):
    """A checkpoint that is not as it was written."""


def checkpoint_path(folder: Path, number: int) -> Path:
    """Where the checkpoint after an update is."""
    return folder / f"checkpoint-{number:08d}.safetensors"


def write_checkpoint(path: Path, value: Any) -> None:
    """Write what a run is, and remove all but this checkpoint and the one before.

    Args:
        path: from :func:`checkpoint_path`.
        value: dicts, lists and tuples of tensors, numbers, strings and None.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_checkpoint(checkpoint_path(Path(folder), 5), {"weight": torch.ones(2), "rate": 0.1})
        ...     newest_checkpoint(Path(folder))
        {'weight': tensor([1., 1.]), 'rate': 0.1}
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps({"format": _FORMAT, "version": _VERSION, "value": _take_apart(value, tensors, "")})
    write_atomically(path, serialize(tensors, {"sttau": text, "sha256": _checksum(text, tensors)}))
    for old in _paths(path.parent)[_KEPT:]:
        old.unlink(missing_ok=True)


def newest_checkpoint(folder: Path) -> Any:
    """Return the value of the newest checkpoint that is whole, or None; a damaged one is named in the log."""
    for path in _paths(folder):
        try:
            return read_checkpoint(path)
        except DamagedError as error:
            _log.warning("%s; the one before it is used", error)
    return None


def read_checkpoint(path: Path) -> Any:
    """Return the value written to a checkpoint, with its tensors on the CPU; an error if a single bit is wrong."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (it is no dict)
        text = metadata["sttau"]
        if metadata["sha256"] != _checksum(text, tensors):
            raise ValueError("its checksum is wrong")
        header = json.loads(text)
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise DamagedError(f"the checkpoint {path} is damaged: {error}") from error
    if (header["format"], header["version"]) != (_FORMAT, _VERSION):
        raise ValueError(
            f"{path} is a {header['format']} of version {header['version']}, but this sttau reads {_FORMAT} of version "
            f"{_VERSION}; go on with the sttau that wrote it, or choose another folder"
        )
    return _put_together(header["value"], tensors)


def sweep(folder: Path, number: int) -> None:
    """Remove what a process that was killed while writing has left, and damaged checkpoints beyond this update."""
    newer = [path for path in _paths(folder) if path > checkpoint_path(folder, number)]
    for path in [*folder.glob(".checkpoint-*.part"), *newer]:
        path.unlink(missing_ok=True)


def _paths(folder: Path) -> list[Path]:
    """The newest first."""
    return sorted(folder.glob("checkpoint-*.safetensors"), reverse=True)


def _take_apart(value: Any, tensors: dict[str, Tensor], name: str) -> Any:
    """Return the value as JSON, with its tensors put aside. A JSON object always says of what kind it is."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, _take_apart(part, tensors, f"{name}/{key}")] for key, part in value.items()]}
    if isinstance(value, (list, tuple)):
        parts = [_take_apart(part, tensors, f"{name}/{place}") for place, part in enumerate(value)]
        return parts if isinstance(value, list) else {"tuple": parts}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}, found at {name}")


def _put_together(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_put_together(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    (kind, content), *_ = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "tuple":
        return tuple(_put_together(part, tensors) for part in content)
    return {key: _put_together(part, tensors) for key, part in content}


def _checksum(text: str, tensors: dict[str, Tensor]) -> str:
    whole = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        whole.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()
