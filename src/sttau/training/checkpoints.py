"""Checkpoints: the whole state of a run in one file with a checksum, written atomically; the last two are kept."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from torch import Tensor

from sttau.formats import DamagedError, Format, Header, Tensors
from sttau.models.saved import adapted_name

_KEPT = 2

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


CHECKPOINT_FORMAT = Format("sttau.checkpoint", 2, {1: _from_version_1}, checksum=True)


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
    CHECKPOINT_FORMAT.write(path, {"value": _pack(value, tensors, "")}, tensors)
    for old in _paths(path.parent)[_KEPT:]:
        old.unlink(missing_ok=True)


def newest_checkpoint(folder: Path) -> Any:
    """Return the value of the newest undamaged checkpoint, or None; damaged ones are logged."""
    for path in _paths(folder):
        try:
            return read_checkpoint(path)
        except DamagedError as error:
            _log.warning("%s; the checkpoint before it is used", error)
    return None


def read_checkpoint(path: Path) -> Any:
    """Return the value written to a checkpoint, with its tensors on the CPU; an error if a single bit is wrong."""
    try:
        header, tensors = CHECKPOINT_FORMAT.read(path)
    except OSError as error:
        raise DamagedError(f"the checkpoint {path} cannot be read: {error}") from error
    return _unpack(header["value"], {name: tensor.clone() for name, tensor in tensors.items()})


def remove_leftovers(folder: Path, number: int) -> None:
    """Remove part files of a process that was killed while writing, and damaged checkpoints after this update."""
    newer = [path for path in _paths(folder) if path > checkpoint_path(folder, number)]
    for path in [*folder.glob(".checkpoint-*.part"), *newer]:
        path.unlink(missing_ok=True)


def _paths(folder: Path) -> list[Path]:
    """The checkpoints of a folder, the newest first."""
    return sorted(folder.glob("checkpoint-*.safetensors"), reverse=True)


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
