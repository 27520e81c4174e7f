"""The one form in which all data travels: a set of labeled sequences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor


class Described(Protocol):
    """What new data must be read like: a data set, or a model that remembers the one it was trained on."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """One for each class; none for numbers."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One for each feature, in order."""

    @property
    def vocabulary(self) -> tuple[str, ...] | None:
        """The token of each id."""


@dataclass(frozen=True, repr=False)
class SequenceDataset:
    """Labeled sequences of one split, padded to a common length.

    Attributes:
        name: of the data set.
        split: ``train``, ``validation`` or ``test``.
        inputs: (sequences, time, features), or (sequences, time) token ids; zero beyond a sequence's length.
        lengths: (sequences,) valid steps.
        labels: (sequences,) class numbers; or real numbers, to be predicted by a ``SequenceRegressor``. A label that is
            not known, in a file read for prediction, is -1 or NaN.
        class_names: one for each class; none where labels are real numbers.
        provenance: where the data comes from, its license, whom to cite, and how the split was made.
        vocabulary: the token of each id, for token data.
        feature_names: one for each feature, where they have names.
        ids: what each sequence is called where it comes from, such as record and sample of a heartbeat.
        label_scale: (offset, factor) where numbers to be predicted were scaled: original = offset + factor · label.

    Example:
        >>> from sttau.data import load
        >>> load("digits", "test")
        SequenceDataset(digits, test: 359 sequences of 8 steps, 8 features, 10 classes)
    """

    name: str
    split: str
    inputs: Tensor
    lengths: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    provenance: str
    vocabulary: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] = ()
    ids: tuple[str, ...] | None = None
    label_scale: tuple[float, float] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        """What it is and how large; never its contents, which may be pages of text."""
        steps = "tokens" if self.inputs.ndim == 2 else "steps"
        shortest, longest = self.lengths.aminmax() if len(self) else (0, 0)
        span = f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
        parts = [f"{len(self):,} sequences of {span} {steps}"]
        if self.inputs.ndim == 3:
            parts.append("1 feature" if self.inputs.shape[2] == 1 else f"{self.inputs.shape[2]:,} features")
        parts.append(f"{len(self.class_names):,} classes" if self.class_names else "labels are numbers")
        return f"{type(self).__name__}({self.name}, {self.split}: {', '.join(parts)})"

    def select(self, rows: Tensor) -> SequenceDataset:
        """Return the sequences at these positions, or where this mask is true.

        Example:
            >>> from sttau.data import load
            >>> digits = load("digits", "test")
            >>> sorted(set(digits.select(digits.labels >= 8).labels.tolist()))
            [8, 9]
        """
        ids = None if self.ids is None else tuple(self.ids[row] for row in torch.arange(len(self))[rows].tolist())
        return replace(self, inputs=self.inputs[rows], lengths=self.lengths[rows], labels=self.labels[rows], ids=ids)
