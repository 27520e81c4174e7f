"""The batches of updates: a pure function of the seed, so that there is no state to save."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from sttau.engine import Noise
from sttau.seeds import derive_seed


class Order:
    """The rows of every update's batch. Each epoch is a new permutation of the data.

    Args:
        sequences: Number of sequences.
        batch_size: Rows per batch; the last batch of an epoch may be smaller.
        seed: Seed of the order.
        lengths: (sequences,) lengths, needed for ``bucket_batches``.
        bucket_batches: Number of batches that are sorted by length together, to reduce padding. 1 leaves batches fully
            random; the larger, the less random they are.

    Example:
        >>> order = Order(10, batch_size=4, seed=0)
        >>> [len(order.rows(update)) for update in (1, 2, 3, 4)]
        [4, 4, 2, 4]
        >>> sorted(torch.cat([order.rows(update) for update in (1, 2, 3)]).tolist()) == list(range(10))
        True
    """

    def __init__(
        self, sequences: int, batch_size: int, seed: int, lengths: Tensor | None = None, bucket_batches: int = 1
    ) -> None:
        self.sequences, self.batch_size, self.seed = sequences, batch_size, seed
        self.lengths = None if lengths is None else lengths.cpu()
        self.bucket_batches = bucket_batches
        self.batches = -(-sequences // batch_size)  # per epoch
        self._epoch, self._batches = -1, [torch.empty(0)]

    def place(self, update: int) -> tuple[int, int]:
        """Return the epoch of an update, counted from 0, and its place in it."""
        return divmod(update - 1, self.batches)

    def rows(self, update: int) -> Tensor:
        """Return the row numbers of an update's batch; updates are counted from 1."""
        epoch, place = self.place(update)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self.shuffled(epoch)
        return self._batches[place]

    def shuffled(self, epoch: int) -> list[Tensor]:
        """Return all batches of an epoch.

        With bucketing, long batches come at the same places whatever the seed, so that networks that are trained
        together have batches of similar length; their content depends on the seed.
        """
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", epoch))
        rows = torch.randperm(self.sequences, generator=generator)
        if self.lengths is None or self.bucket_batches == 1:
            return list(rows.split(self.batch_size))
        batches: list[Tensor] = []
        for pool in rows.split(self.batch_size * self.bucket_batches):
            batches += pool[self.lengths[pool].argsort(stable=True)].split(self.batch_size)
        generator.manual_seed(derive_seed(0, "places", epoch))
        return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


class Batch(NamedTuple):
    """The part of an update's batch that one process computes."""

    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None
    noise: Noise
    share: float  # fraction of the joint batch
    weights: Tensor | None = None  # weights of the sequences in the mean loss


@dataclass(frozen=True)
class Data:
    """The training data, on the device where it is used."""

    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None
    ends: Tensor | None  # the lengths on the CPU: reading the longest from a GPU would synchronize
    seed: Tensor
    weights: Tensor | None = None  # weights of the sequences in the mean loss; over all of them their mean is 1

    @classmethod
    def on(
        cls,
        device: torch.device,
        inputs: Tensor,
        targets: Tensor,
        lengths: Tensor | None,
        seed: int,
        weights: Tensor | None = None,
    ) -> Data:
        """Move the data to a device."""
        return cls(
            inputs.to(device),
            targets.to(device),
            None if lengths is None else lengths.to(device),
            None if lengths is None else lengths.cpu(),
            torch.tensor(seed, dtype=torch.int64, device=device),
            None if weights is None else weights.to(device),
        )

    def end(self, rows: Tensor, few_shapes: bool = False) -> int | None:
        """Return the number of steps of the longest of these rows; None where all have the same.

        Args:
            rows: Row numbers, on the CPU.
            few_shapes: Whether to round up, so that only few different shapes occur.
        """
        if self.ends is None:
            return None
        end = int(self.ends[rows].max())
        return min(round_up(end), self.inputs.shape[1]) if few_shapes else end

    def batch(self, rows: Tensor, places: Tensor, share: float, update: Tensor, end: int | None) -> Batch:
        """Select these rows, cut to ``end`` steps. All tensors are on the data's device.

        Args:
            rows: Row numbers.
            places: Places of the rows in the joint batch. The noise follows from seed, update and place, and so does
                not depend on the number of processes.
            share: Share of the joint batch that these rows are.
            update: (1,) number of the update.
            end: Number of steps; see :meth:`end`.
        """
        noise = Noise(self.seed, places, update.repeat(len(places)))
        lengths = None if self.lengths is None else self.lengths[rows]
        weights = None if self.weights is None else self.weights[rows]
        return Batch(self.inputs[:, :end][rows], self.targets[rows], lengths, noise, share, weights)


def round_up(length: int) -> int:
    """Round a length up to one of at most eight values per octave, so that at most an eighth is padding.

    Example:
        >>> [round_up(length) for length in (7, 17, 100, 2956)]
        [7, 18, 104, 3072]
    """
    grain = 1 << max(0, (length - 1).bit_length() - 4)
    return -(-length // grain) * grain
