"""What models read: data sets, arrays, one series, or text, all brought to tensors and lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sttau.checks import as_tensor
from sttau.data import SequenceDataset, encode
from sttau.data.arrays import warn_padding
from sttau.errors import DataError
from sttau.models import Predictor


class Inputs(NamedTuple):
    """A batch that was checked for a model."""

    inputs: Tensor
    lengths: Tensor | None


class Examples(NamedTuple):
    """Inputs with targets."""

    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None


_REMEDY = "Read the data with like=model (sttau.data.read); to train on other data, call model.set_metadata(data) first"


def as_inputs(model: Predictor, data: Any, lengths: Any = None) -> Inputs:
    """Return the batch a model reads.

    Args:
        model: Model that will read it.
        data: A ``SequenceDataset``; (batch, time, features) or (batch, time) token ids as tensor, array or nested
            lists; one series, (time, features) or (time,) token ids; one text, or a list of texts.
        lengths: (batch,) valid steps; only with arrays.
    """
    if isinstance(data, SequenceDataset):
        if lengths is not None:
            raise ValueError("lengths are part of a SequenceDataset; do not pass them a second time")
        _check_names(model, data)
        data, lengths = data.inputs, data.lengths
    elif isinstance(data, str) or (_is_list(data) and data and all(isinstance(text, str) for text in data)):
        if not model.reads_tokens:
            raise TypeError(
                f"inputs are text, but the model reads {model.num_features} features per step; pass an array of shape "
                f"(batch, time, {model.num_features}), or train a model on texts"
            )
        if lengths is not None:
            raise ValueError("lengths are not taken with text; they follow from the words")
        data, lengths = encode(data, model.vocabulary)
    inputs = as_tensor("inputs", data)
    one_series = inputs.dim() == 1 if model.reads_tokens else inputs.shape[1:] == (model.num_features,)
    if lengths is None and one_series:
        inputs = inputs[None]
    elif lengths is None:
        warn_padding(inputs)
    if inputs.is_floating_point() and not model.reads_tokens:
        inputs = inputs.to(model.dtype)  # float64 is NumPy's default, rarely a choice
    return Inputs(inputs, model.check_inputs(inputs, None if lengths is None else as_tensor("lengths", lengths)))


def as_examples(model: Predictor, data: Any, targets: Any = None, lengths: Any = None) -> Examples:
    """Return inputs and targets, checked for a model.

    Args:
        model: Model that is trained or evaluated on them.
        data: A ``SequenceDataset``, a tuple (inputs, targets) or (inputs, targets, lengths), or inputs.
        targets: (sequences,) labels, or (sequences, outputs) values; only where ``data`` is inputs.
        lengths: (sequences,) valid steps; only where ``data`` is inputs.
    """
    if isinstance(data, SequenceDataset):
        if targets is not None or lengths is not None:
            raise ValueError("targets and lengths are part of a SequenceDataset; do not pass them a second time")
        _check_names(model, data)
        _check_places(model, data, "classes", data.class_names, model.class_names)
        data, targets, lengths = data.inputs, data.labels, data.lengths
    elif isinstance(data, tuple) and targets is None and len(data) in (2, 3):
        data, targets, lengths = (*data, None)[:3]
    if targets is None:
        raise TypeError("targets are missing: pass a SequenceDataset, or inputs and targets")
    inputs = as_tensor("inputs", data)
    if lengths is None:
        warn_padding(inputs)
    lengths = model.check_inputs(inputs, None if lengths is None else as_tensor("lengths", lengths))
    return Examples(inputs, model.check_targets(as_tensor("targets", targets), len(inputs)), lengths)


def _check_names(model: Predictor, data: SequenceDataset) -> None:
    """Raise where features or tokens have other names than those that the model was trained on."""
    if data.feature_names and model.feature_names and data.feature_names != model.feature_names:
        raise DataError(
            f"{data.name} has features {', '.join(data.feature_names)}, but the model was trained on "
            f"{', '.join(model.feature_names)}. {_REMEDY}"
        )
    _check_places(model, data, "tokens", data.vocabulary or (), model.vocabulary or ())


def _check_places(model: Predictor, data: SequenceDataset, what: str, own: Sequence[str], known: Sequence[str]) -> None:
    """Raise where numbers do not stand for the same names; data may lack the last ones, or have numbers as names."""
    if tuple(known[: len(own)]) == tuple(own):
        return
    if any(list(names) == list(map(str, range(len(names)))) for names in (own, known)):
        return
    place = next((n for n, (one, other) in enumerate(zip(own, known, strict=False)) if one != other), len(known))
    before = repr(known[place]) if place < len(known) else "nothing"
    raise DataError(
        f"{data.name} has other {what} than the model was trained on: number {place} is {own[place]!r}, and was "
        f"{before}. {_REMEDY}"
    )


def _is_list(data: Any) -> bool:
    return isinstance(data, Sequence) and not isinstance(data, (str, bytes, torch.Tensor))
