"""Checks of arguments at the public interface. Errors name the argument, what was expected, and the remedy."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sttau.errors import CheckpointError
from sttau.padding import valid_steps


def as_tensor(name: str, value: Any) -> Tensor:
    """Return a tensor from a tensor, a NumPy array, a Series or data frame, or nested lists."""
    if isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(_array(value))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name} must be a tensor, an array or nested lists of equal length, got {type(value).__name__}: {error}. "
            f"Pad sequences of different length and pass their lengths."
        ) from error


def _array(value: Any) -> Any:
    """A Series or a data frame as an array: PyTorch would read it like a list, by its index."""
    known = isinstance(value, Tensor | np.ndarray | np.generic)
    return np.asarray(value).copy() if hasattr(value, "__array__") and not known else value


def as_integer(name: str, value: Any, at_least: int | None = None) -> int:
    """Return an integer, be it Python's, NumPy's or PyTorch's; an error that names the argument for anything else.

    Example:
        >>> as_integer("updates", 7.5, 1)
        Traceback (most recent call last):
        ValueError: updates must be an integer, at least 1, got 7.5
    """
    limit = "" if at_least is None else f", at least {at_least}"
    try:
        number = operator.index(value)
    except TypeError as error:
        raise ValueError(f"{name} must be an integer{limit}, got {value!r}") from error
    if isinstance(value, bool) or not -(2**63) <= number < 2**63:
        raise ValueError(f"{name} must be an integer{limit} of 64 bits, got {value!r}")
    if at_least is not None and number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value}")
    return number


def as_numbers(name: str, value: Any) -> Tensor:
    """Return a floating tensor: floating tensors and arrays as they are, anything else as float64."""
    tensor = as_tensor(name, value)
    if tensor.is_floating_point() and hasattr(value, "dtype"):
        return tensor
    return torch.as_tensor(_array(value), dtype=torch.float64)  # from the value again: nested lists became float32


def check_rate(name: str, rate: float) -> None:
    """Raise unless a rate is at least 0 and below 1.

    Example:
        >>> check_rate("dropout", 1.0)
        Traceback (most recent call last):
        ValueError: dropout must be in [0, 1), got 1.0
    """
    if not 0 <= rate < 1:
        raise ValueError(f"{name} must be in [0, 1), got {rate}")


def check_level(name: str, level: float, example: float) -> None:
    """Raise unless a level, or a share, lies strictly between 0 and 1.

    Example:
        >>> check_level("level", 95, example=0.95)
        Traceback (most recent call last):
        ValueError: level must lie between 0 and 1, for instance 0.95, got 95
    """
    if not 0 < level < 1:
        raise ValueError(f"{name} must lie between 0 and 1, for instance {example:g}, got {level}")


def check_lengths(lengths: Tensor | None, batch: int, time: int, *, values: bool = True) -> Tensor | None:
    """Return lengths as int64 after checking their shape and, with ``values``, that each is in 1 … time.

    Reading values from a GPU synchronizes, so inner calls leave that out.
    """
    if lengths is None:
        return None
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths must be integers, got {lengths.dtype}")
    if tuple(lengths.shape) != (batch,):
        raise ValueError(f"lengths must have shape ({batch},), one per sequence, got {tuple(lengths.shape)}")
    lengths = lengths.to(torch.int64)
    if not values:
        return lengths
    low, high = int(lengths.min()), int(lengths.max())
    if low < 1:
        where = int(lengths.argmin())
        raise ValueError(f"lengths must be at least 1, but sequence {where} has length {low}; leave it out")
    if high > time:
        where = int(lengths.argmax())
        raise ValueError(f"lengths must not exceed the {time} steps given, but sequence {where} has length {high}")
    return lengths


def check_inputs(
    inputs: Tensor, lengths: Tensor | None, *, features: int | None, tokens: int | None, missing: bool = False
) -> Tensor | None:
    """Check a batch for a model and return its lengths.

    Args:
        inputs: (batch, time, features), or (batch, time) token ids where the model has an embedding.
        lengths: (batch,) valid steps, or None.
        features: Features per step of the model; None for token ids.
        tokens: Size of the vocabulary; None for features.
        missing: Whether features may be NaN, which means that they are missing.
    """
    want = "(batch, time) token ids" if tokens is not None else f"(batch, time, {features}) features"
    if inputs.dim() != (2 if tokens is not None else 3):
        raise ValueError(f"inputs must be {want}, got shape {tuple(inputs.shape)}")
    batch, time = inputs.shape[:2]
    if batch == 0 or time == 0:
        raise ValueError(f"inputs are empty: {batch} sequences of {time} steps; expected at least one of each")
    lengths = check_lengths(lengths, batch, time)
    if tokens is not None and (inputs.is_floating_point() or inputs.dtype == torch.bool):
        raise TypeError(f"inputs must be {want} of an integer type, got {inputs.dtype}")
    if tokens is None and not inputs.is_floating_point():
        raise TypeError(f"inputs must be {want} of a floating type, got {inputs.dtype}; call .float()")
    if tokens is None and inputs.shape[2] != features:
        raise ValueError(f"inputs have {inputs.shape[2]} features per step, but the model expects {features}")

    if tokens is None:
        bad = ~(inputs.isfinite() | inputs.isnan() if missing else inputs.isfinite()).all(-1)
    else:
        signed = inputs.dtype in (torch.int16, torch.int32, torch.int64)
        ids = inputs if signed else inputs.to(torch.int64)  # unsigned dtypes have no comparison
        bad = (ids < 0) | (ids >= tokens)
    if lengths is not None:  # the content of the padding does not matter
        bad = bad & valid_steps(inputs, lengths)
    if bool(bad.any()):
        row, step = (int(i) for i in bad.nonzero()[0])
        if tokens is None:
            raise ValueError(
                f"inputs hold NaN or infinity, first in sequence {row} at step {step}; "
                'a model built with Preprocessing(missing="mask") reads missing values'
            )
        raise ValueError(
            f"inputs hold token id {int(inputs[row, step])} in sequence {row} at step {step}, "
            f"outside the vocabulary 0 … {tokens - 1}"
        )
    return lengths


def check_labels(labels: Tensor, batch: int, classes: int) -> Tensor:
    """Return class labels as int64 after checking shape, type and range."""
    if labels.is_floating_point():
        raise TypeError(f"labels must be integers 0 … {classes - 1}, got {labels.dtype}")
    if tuple(labels.shape) != (batch,):
        raise ValueError(f"labels must have shape ({batch},), one per sequence, got {tuple(labels.shape)}")
    labels = labels.to(torch.int64)
    outside = (labels < 0) | (labels >= classes)
    if bool(outside.any()):
        row = int(outside.nonzero()[0])
        raise ValueError(f"labels must be in 0 … {classes - 1}, but label {row} is {int(labels[row])}")
    return labels


def check_targets(targets: Tensor, batch: int, outputs: int) -> Tensor:
    """Return regression targets as (batch, outputs) after checking shape and values."""
    if not targets.is_floating_point():
        raise TypeError(f"targets must be of a floating type, got {targets.dtype}; call .float()")
    if targets.dim() == 1 and outputs == 1:
        targets = targets[:, None]
    if tuple(targets.shape) != (batch, outputs):
        raise ValueError(f"targets must have shape ({batch}, {outputs}), got {tuple(targets.shape)}")
    if not bool(targets.isfinite().all()):
        row = int((~targets.isfinite()).any(-1).nonzero()[0])
        raise ValueError(f"targets hold NaN or infinity, first in row {row}; leave such sequences out")
    return targets


def check_device(device: torch.device | str) -> torch.device:
    """Return a device after checking that this machine has it."""
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be the name of a device, such as 'cpu' or 'cuda', got {device!r}") from error
    if chosen.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (chosen.index or 0) >= count:
            found = f"PyTorch finds {count} GPUs" if count else "PyTorch finds no GPU"
            raise ValueError(f"device {str(chosen)!r} is not available: {found} on this machine. Use 'cpu'.")
    return chosen


@contextmanager
def cpu_by_default() -> Iterator[None]:
    """Context in which new tensors are on the CPU unless their device is named, as without ``set_default_device``."""
    with nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu"):
        yield


def check_same_settings(folder: Path, what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise an error that names the differences if a folder was written with other settings."""
    changes = [
        f"{name} was {before.get(name)}, is {now.get(name)}"
        for name in {**now, **before}
        if before.get(name) != now.get(name)
    ]
    if changes:
        raise CheckpointError(
            f"folder {folder} holds a {what} with other settings: {'; '.join(changes)}. "
            "Use the same settings to resume it, or another folder to start again."
        )


def check_probabilities(name: str, value: Any, dims: tuple[int, ...] = (2,)) -> Tensor:
    """Return probabilities over the last dimension as a floating tensor after checking shape, range and sums."""
    p = as_numbers(name, value)
    want = " or ".join("(" + ("samples, " if d == 3 else "") + "predictions, classes)" for d in dims)
    if p.dim() not in dims or p.numel() == 0:
        raise ValueError(f"{name} must be {want} and not empty, got shape {tuple(p.shape)}")
    if p.shape[-1] < 2:
        raise ValueError(f"{name} must be {want} with at least 2 classes, got 1; for a binary model stack (1 - p, p)")
    if not bool(((p >= 0) & (p <= 1)).all()) or not bool(((p.sum(-1) - 1).abs() < 1e-3).all()):
        raise ValueError(f"{name} must lie in [0, 1] and sum to 1 in each row; apply softmax to logits first")
    return p
