"""The record of a method, and the data it is built for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor

from sttau.data import SequenceDataset
from sttau.padding import valid_steps

Sampling = Literal["none", "members", "states", "weights", "masks"]


class DataSpec(NamedTuple):
    """Input and output of a network."""

    features: int | None  # features per step; None for token ids
    tokens: int  # size of the vocabulary; 0 for features
    classes: int | None  # None for regression
    outputs: int  # values predicted per sequence
    sequences: int  # training sequences
    steps: int = 1  # length of the longest training sequence

    @classmethod
    def of(cls, *splits: SequenceDataset) -> DataSpec:
        """Derive it from all splits together; the first is the training data."""
        first = splits[0]
        is_tokens = first.inputs.dim() == 2
        tokens = 0
        if is_tokens:
            tokens = len(first.vocabulary or ()) or max(int(_valid(split).max()) for split in splits) + 1
        is_regression = first.labels.is_floating_point()
        classes = len(first.class_names) or (0 if is_regression else max(int(s.labels.max()) for s in splits) + 1)
        return cls(
            features=None if is_tokens else first.inputs.shape[2],
            tokens=tokens,
            classes=None if is_regression else classes,
            outputs=1 if first.labels.dim() == 1 else first.labels.shape[1],
            sequences=len(first),
            steps=int(first.lengths.max()) if len(first) else 1,
        )


def _valid(data: SequenceDataset) -> Tensor:
    return data.inputs[valid_steps(data.inputs, data.lengths)]


def no_defaults(spec: DataSpec, hidden_size: int) -> dict[str, Any]:
    """Return no settings: the layer's own defaults hold."""
    return {}


@dataclass(frozen=True)
class Method:
    """Everything the library knows about a method.

    Attributes:
        name: Name in arguments, files and tables.
        title: Name in figures and pages.
        color: Color in figures.
        layers: Constructor of the layer for each cell, the default cell first.
        sampling: What differs between two samples of a prediction.
        defaults: Settings for some data and a hidden size; see :func:`sttau.methods.build`.
        posterior: Name of the distribution of weights that the members of an ensemble are drawn from after one network
            was trained (``training/posterior.py``); None where members, or the one network, are trained.
    """

    name: str
    title: str
    color: str
    layers: Mapping[str, Callable[..., Any]]
    sampling: Sampling = "none"
    defaults: Callable[[DataSpec, int], dict[str, Any]] = no_defaults
    posterior: str | None = None
