"""Which sequences an update is made with: a pure function of the seed, so that there is no state to lose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from sttau.engine import Noise
from sttau.seeds import derive_seed


class Order:
    """The rows of every update's batch. Each time round is a new permutation of the data.

    Args:
        sequences: how many there are.
        batch_size: rows a batch; the last of a round may be smaller.
        seed: all of the order follows from it.
        lengths: (sequences,), needed for ``bucket_batches``.
        bucket_batches: how many batches are sorted by length together, so that sequences of like length meet and
            little is padding. 1 leaves batches wholly random; the more, the less random they are.

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
        self.batches = -(-sequences // batch_size)  # a round
        self._round, self._batches = -1, [torch.empty(0)]

    def place(self, update: int) -> tuple[int, int]:
        """The round of an update, counted from 0, and its place in it."""
        return divmod(update - 1, self.batches)

    def rows(self, update: int) -> Tensor:
        """Row numbers of the batch of an update, counted from 1."""
        number, place = self.place(update)
        if number != self._round:
            self._round, self._batches = number, self.shuffled(number)
        return self._batches[place]

    def shuffled(self, number: int) -> list[Tensor]:
        """All batches of a round.

        Of batches that are sorted by length, the long ones come at the same places whatever the seed, so that several
        networks that are trained together need not wait for each other; which sequences they hold follows from it.
        """
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", number))
        rows = torch.randperm(self.sequences, generator=generator)
        if self.lengths is None or self.bucket_batches == 1:
            return list(rows.split(self.batch_size))
        batches: list[Tensor] = []
        for pool in rows.split(self.batch_size * self.bucket_batches):
            batches += pool[self.lengths[pool].argsort(stable=True)].split(self.batch_size)
        generator.manual_seed(derive_seed(0, "places", number))
        return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


class Batch(NamedTuple):
    """What one process computes of an update."""

    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None
    noise: Noise
    share: float  # of the joined batch


@dataclass(frozen=True)
class Data:
    """The training data, on the device where it is used."""

    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None
    ends: Tensor | None  # the lengths again, on the CPU: asking a GPU for the longest would make it wait
    seed: Tensor

    @classmethod
    def on(cls, device: torch.device, inputs: Tensor, targets: Tensor, lengths: Tensor | None, seed: int) -> Data:
        """Move the data to a device once and for all."""
        return cls(
            inputs.to(device),
            targets.to(device),
            None if lengths is None else lengths.to(device),
            None if lengths is None else lengths.cpu(),
            torch.tensor(seed, dtype=torch.int64, device=device),
        )

    def end(self, rows: Tensor, few_shapes: bool = False) -> int | None:
        """How many steps the longest of these rows has, which are on the CPU; None where all have the same.

        Args:
            rows: row numbers.
            few_shapes: a little more, so that only few different numbers occur.
        """
        if self.ends is None:
            return None
        end = int(self.ends[rows].max())
        return min(round_up(end), self.inputs.shape[1]) if few_shapes else end

    def batch(self, rows: Tensor, places: Tensor, share: float, update: Tensor, end: int | None) -> Batch:
        """Take these rows, cut to ``end`` steps. All tensors are on the data's device.

        Args:
            rows: row numbers.
            places: where the rows stand in the joined batch. A draw of noise follows from seed, update and place, and
                so does not depend on how many processes share the work.
            share: of the joined batch that these rows are.
            update: (1,) the number of the update.
            end: see :meth:`end`.
        """
        noise = Noise(self.seed, places, update.repeat(len(places)))
        lengths = None if self.lengths is None else self.lengths[rows]
        return Batch(self.inputs[:, :end][rows], self.targets[rows], lengths, noise, share)


def round_up(length: int) -> int:
    """Round a length up to one of at most eight in each octave; at most an eighth is padding.

    Example:
        >>> [round_up(length) for length in (7, 17, 100, 2956)]
        [7, 18, 104, 3072]
    """
    grain = 1 << max(0, (length - 1).bit_length() - 4)
    return -(-length // grain) * grain
