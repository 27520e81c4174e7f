"""The one form in which all data travels: a set of labelled sequences."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor


@dataclass(frozen=True)
class SequenceDataset:
    """Labelled sequences of one split, padded to a common length.

    Attributes:
        name: of the data set.
        split: ``train``, ``validation`` or ``test``.
        inputs: (sequences, time, features), or (sequences, time) token ids; zero beyond a sequence's length.
        lengths: (sequences,) valid steps.
        labels: (sequences,) class numbers.
        class_names: one for each class.
        vocabulary: the token of each id, for token data.
        provenance: where the data comes from, with its licence.
    """

    name: str
    split: str
    inputs: Tensor
    lengths: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    provenance: str
    vocabulary: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Tensor) -> SequenceDataset:
        """Return the sequences at these positions, or where this mask is true.

        Example:
            >>> from sttau.data import load
            >>> digits = load("digits", "test")
            >>> sorted(set(digits.select(digits.labels >= 8).labels.tolist()))
            [8, 9]
        """
        return replace(self, inputs=self.inputs[rows], lengths=self.lengths[rows], labels=self.labels[rows])
