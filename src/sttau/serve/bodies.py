"""Bodies of requests, and the batches they describe."""

from __future__ import annotations

import math
from typing import Annotated, Any, overload

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from sttau.inference.inputs import as_inputs
from sttau.layers import LayerMode
from sttau.models import Predictor
from sttau.serve.batching import Job
from sttau.serve.settings import Settings

Inputs = Annotated[
    Any,
    Field(
        description="One text or a list of texts; one series, a list of steps with a list of features each, or a list "
        "of series, which may differ in length; or token ids likewise. null is a missing value.",
        examples=[[[0.0, 1.5], [0.5, 2.0]], "a fine film", "0110"],
    ),
]
Name = Annotated[str | None, Field(max_length=200, description="Name of the model; may be left out if there is one.")]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63, strict=True, description="Seed of the sampling noise.")]
Samples = Annotated[int, Field(ge=1, strict=True, description="Monte Carlo samples per member.")]
Level = Annotated[float, Field(gt=0, lt=1, description="Level of conformal sets and intervals.")]
Mode = Annotated[LayerMode | None, Field(description="Mode of the layer; that of training by default.")]


class Sampling(BaseModel):
    """What a request may choose about the samples."""

    model_config = ConfigDict(extra="forbid")

    samples: Samples = 10
    seed: Seed = 0
    mode: Mode = None


class PredictBody(Sampling):
    """Sequences to predict."""

    model: Name = None
    inputs: Inputs
    per_step: Annotated[bool, Field(description="Whether to predict after every step, with states.")] = False
    level: Level = 0.9


class TooLargeError(ValueError):
    """A request beyond a limit of the server."""


def make_job(model: Predictor, inputs: Any, sampling: Sampling, settings: Settings, *, per_step: bool = False) -> Job:
    """Return the work that a request describes, after checking it and its size.

    Args:
        model: Model that predicts.
        inputs: Value of ``inputs`` in the body.
        sampling: Samples, seed and mode.
        settings: Limits.
        per_step: Whether to predict after every step.
    """
    sampling_mode = model.resolve_mode(sampling.mode)
    if sampling.samples > settings.max_samples:
        raise TooLargeError(f"samples must be at most {settings.max_samples}, got {sampling.samples}")
    padded, lengths = read_inputs(model, inputs, settings)
    count, time = padded.shape[:2]
    work = time * sampling.samples
    if work > settings.max_sequence_work or count * work > settings.max_work:
        raise TooLargeError(
            f"the request is too large: {count} sequences of up to {time} steps with {sampling.samples} samples; "
            "send fewer or shorter sequences, or fewer samples"
        )
    if per_step and count * time * model.num_outputs > 1 << 18:
        raise TooLargeError("the request is too large for a prediction after every step; send fewer sequences")
    return Job(model, padded, lengths, sampling.samples, sampling.seed, sampling_mode, per_step)


def read_inputs(model: Predictor, inputs: Any, settings: Settings) -> tuple[Tensor, Tensor]:
    """Return sequences as a padded batch with lengths, checked for a model.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(1, 8, num_states=4), 2)
        >>> x, lengths = read_inputs(model, [[[1.0], [2.0]], [[3.0]]], Settings())
        >>> x[..., 0].tolist(), lengths.tolist()
        ([[1.0, 2.0], [3.0, 0.0]], [2, 1])
    """
    if _is_text(inputs):
        texts = [inputs] if isinstance(inputs, str) else inputs
        _check_count(len(texts), settings)
        if max(map(len, texts)) > 64 * settings.max_steps:
            raise TooLargeError(f"a text must have at most {64 * settings.max_steps} characters")
        x, lengths = as_inputs(model, texts)
        lengths = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
    else:
        if not isinstance(inputs, list) or not inputs:
            raise TypeError(f"inputs must be a text or a list that is not empty, got {type(inputs).__name__}")
        depth = _depth(inputs)
        one = 1 if model.reads_tokens else 2
        if depth == one - 1 and model.num_features == 1:
            inputs, depth = [[value] for value in inputs], 2  # one series of one feature
        if depth not in (one, one + 1):
            what = "token ids" if model.reads_tokens else f"steps of {model.num_features} features"
            raise ValueError(f"inputs must be a list of {what}, or a list of such lists, got {depth} nested lists")
        series = [inputs] if depth == one else inputs
        _check_count(len(series), settings)
        arrays = [_array(one_series, place, model) for place, one_series in enumerate(series)]
        time = max(map(len, arrays))
        _check_steps(time, settings)
        x = torch.zeros(len(arrays), time, *arrays[0].shape[1:], dtype=torch.from_numpy(arrays[0]).dtype)
        for row, array in zip(x, arrays, strict=True):
            row[: len(array)] = torch.from_numpy(array)
        x, lengths = as_inputs(model, x, torch.tensor([len(array) for array in arrays]))
        assert lengths is not None
    _check_steps(x.shape[1], settings)
    return x, lengths


def _is_text(inputs: Any) -> bool:
    return isinstance(inputs, str) or (
        isinstance(inputs, list) and bool(inputs) and all(isinstance(text, str) for text in inputs)
    )


def _check_count(count: int, settings: Settings) -> None:
    if count > settings.max_sequences:
        raise TooLargeError(f"inputs must be at most {settings.max_sequences} sequences, got {count}")


def _check_steps(steps: int, settings: Settings) -> None:
    if steps > settings.max_steps:
        raise TooLargeError(f"a sequence must have at most {settings.max_steps} steps, got {steps}")


def _depth(value: Any) -> int:
    depth = 0
    while isinstance(value, list) and depth < 5:
        depth += 1
        value = next((part for part in value if part is not None), None)
    return depth


def _array(series: Any, place: int, model: Predictor) -> np.ndarray[Any, Any]:
    """Return a series as an array; null as NaN."""
    width = model.num_features
    want = "token ids" if width is None else f"steps with {width} numbers each"
    problem = f"sequence {place} of inputs must be a list of {want} that is not empty"
    try:
        found = {type(value) for value in series} if width is None else {type(v) for step in series for v in step}
        if found - ({int} if width is None else {int, float, type(None)}):
            raise TypeError(problem)
        array = np.asarray(series, dtype=np.int64 if width is None else np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(problem) from None
    if width is None and len(array):
        return array
    if array.ndim != 2 or array.shape[1] != width or not len(array):
        raise ValueError(problem)
    if bool((np.abs(array[np.isfinite(array)]) > 1e30).any()) or bool(np.isinf(array).any()):
        raise ValueError(f"sequence {place} of inputs holds values beyond 1e30")
    return array


@overload
def plain(value: dict[str, object]) -> dict[str, Any]: ...
@overload
def plain(value: Any) -> Any: ...
def plain(value: Any) -> Any:
    """Return a value as JSON allows it: NaN and infinity are null.

    Example:
        >>> plain({"a": [1.0, float("nan")], "b": (True, None)})
        {'a': [1.0, None], 'b': [True, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, Tensor):
        return plain(value.tolist())
    return value
