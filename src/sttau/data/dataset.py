"""The form of all data: a set of labeled sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, overload

import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from sttau.data.schema import Schema


class Described(Protocol):
    """Names by which new data is read: those of a data set, or of a model that keeps the names of its training data."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class; empty for regression."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each feature, in order."""

    @property
    def vocabulary(self) -> tuple[str, ...] | None:
        """Token of each id."""

    @property
    def schema(self) -> Schema | None:
        """Roles of the columns of the table that the data was read from; None where it was no table."""


class LabeledSequence(NamedTuple):
    """One sequence of a data set."""

    inputs: Tensor  # (length, features), or (length,) token ids
    label: Tensor  # scalar, or (outputs,)


class PaddedBatch(NamedTuple):
    """Several sequences, padded to a common length."""

    inputs: Tensor  # (batch, time, features), or (batch, time) token ids
    labels: Tensor  # (batch,) or (batch, outputs)
    lengths: Tensor  # (batch,)


def collate(items: Sequence[LabeledSequence]) -> PaddedBatch:
    """Pad sequences to a common length; the ``collate_fn`` of a ``torch.utils.data.DataLoader``.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> from sttau.data import load
        >>> loader = DataLoader(load("tomita1", "train"), batch_size=4, collate_fn=collate)
        >>> batch = next(iter(loader))
        >>> batch.inputs.shape[0], batch.lengths.tolist()
        (4, [1, 1, 1, 1])
    """
    inputs = torch.nn.utils.rnn.pad_sequence([item.inputs for item in items], batch_first=True)
    return PaddedBatch(
        inputs, torch.stack([item.label for item in items]), torch.tensor([len(item.inputs) for item in items])
    )


@dataclass(frozen=True, repr=False)
class SequenceDataset(Dataset[LabeledSequence]):
    """Labeled sequences of one split, padded to a common length.

    It is a ``torch.utils.data.Dataset``: an integer index gives one sequence without padding, a slice, mask or list of
    positions gives a data set, and a ``DataLoader`` works with ``collate_fn=sttau.data.collate``.

    Attributes:
        name: Name of the data set.
        split: ``train``, ``validation`` or ``test``.
        inputs: (sequences, time, features), or (sequences, time) token ids; zero beyond a sequence's length.
        lengths: (sequences,) valid steps.
        labels: (sequences,) classes; or targets of a ``SequenceRegressor``, (sequences,) or (sequences, outputs). A
            label that is not known, in a file read for prediction, is -1 or NaN.
        class_names: Name of each class; empty for regression.
        provenance: Source of the data, its license, citation, and how the split was made.
        vocabulary: Token of each id, for token data.
        feature_names: Name of each feature, where they have names.
        ids: Name of each sequence at its source, such as record and sample of a heartbeat.
        label_scale: (offset, factor) where targets were scaled: original = offset + factor · label.
        schema: Roles of the columns of the table that the data was read from.
        groups: Group of each sequence, such as the patient, which a split keeps together.
        remarks: Remarks of the reader: what it decided, and what looks odd.

    Example:
        >>> from sttau.data import load
        >>> digits = load("digits", "test")
        >>> digits
        SequenceDataset(digits, test: 359 sequences of 8 steps, 8 features, 10 classes)
        >>> digits[0].inputs.shape, digits[:10]
        (torch.Size([8, 8]), SequenceDataset(digits, test: 10 sequences of 8 steps, 8 features, 10 classes))
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
    schema: Schema | None = None
    groups: tuple[str, ...] | None = None
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, index: int) -> LabeledSequence: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | Tensor | npt.NDArray[Any]) -> SequenceDataset: ...
    def __getitem__(self, index: Any) -> Any:
        """Return one sequence, or a data set of several."""
        if isinstance(index, slice):
            return self.select(torch.tensor(range(len(self))[index], dtype=torch.int64))
        if not hasattr(index, "__index__") or getattr(index, "ndim", 0) > 0:
            return self.select(index)
        row = range(len(self))[index]  # negative positions count from the end
        return LabeledSequence(self.inputs[row, : int(self.lengths[row])], self.labels[row])

    def __repr__(self) -> str:
        """A short description; never the content, which may be pages of text."""
        steps = "tokens" if self.inputs.ndim == 2 else "steps"
        shortest, longest = self.lengths.aminmax() if len(self) else (0, 0)
        span = f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
        parts = [f"{len(self):,} sequences of {span} {steps}"]
        if self.inputs.ndim == 3:
            parts.append("1 feature" if self.inputs.shape[2] == 1 else f"{self.inputs.shape[2]:,} features")
        parts.append(f"{len(self.class_names):,} classes" if self.class_names else "regression")
        return f"{type(self).__name__}({self.name}, {self.split}: {', '.join(parts)})"

    def select(self, rows: Tensor) -> SequenceDataset:
        """Return the sequences at these positions, or where this mask is true.

        Example:
            >>> from sttau.data import load
            >>> digits = load("digits", "test")
            >>> sorted(set(digits.select(digits.labels >= 8).labels.tolist()))
            [8, 9]
        """
        rows = _as_rows(rows)
        places = torch.arange(len(self))[rows].tolist()
        ids, groups = (
            None if names is None else tuple(names[row] for row in places) for names in (self.ids, self.groups)
        )
        return replace(
            self,
            inputs=self.inputs[rows],
            lengths=self.lengths[rows],
            labels=self.labels[rows],
            ids=ids,
            groups=groups,
        )

    def summary(self) -> str:
        """Return what the data holds, as a few lines of text: layout, lengths, features, target and warnings.

        Example:
            >>> from sttau.data import load
            >>> print(load("stochastic1", "train")[:20].summary())
            stochastic1, train: 20 sequences of 2 tokens
              vocabulary: 3 tokens
              target: 2 classes: reject 14, accept 6
        """
        from sttau.data.summary import summarize

        return summarize(self)


def _as_rows(rows: Any) -> Tensor:
    """Positions or a mask as a tensor; an error that says what an index may be for anything else."""
    try:
        tensor = torch.as_tensor(rows)
    except (TypeError, ValueError, RuntimeError):
        tensor = torch.empty(())
    if tensor.shape == (0,):
        return tensor.to(torch.int64)
    if tensor.dim() != 1 or tensor.is_floating_point():
        raise TypeError(
            "index must be an integer, a slice, or a list, array or tensor of integers or with one bool per sequence; "
            f"got {str(rows)[:80]!r}"
        )
    return tensor
