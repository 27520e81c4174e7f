"""Parts of training sequences, which a network is trained on in addition to the whole ones.

The training of a network gives their number per sequence under ``parts``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch

from sttau.data import SequenceDataset
from sttau.jobs import Cell
from sttau_reproduction.classification.splits import load_splits

KEY = "parts"

_SHARES = (0.2, 0.8)  # of a sequence that a part has
_SEED = 0


def training_data(training: Cell, device: str) -> SequenceDataset:
    """The sequences that a network is trained on, with their parts if its training has them.

    Args:
        training: Training of a network.
        device: Device of the inputs.
    """
    settings = training.settings
    count = settings["training"].get(KEY, 0)
    return load_training_data(training.data, tuple(sorted(settings["part"].items())), count, device)


@cache
def load_training_data(data: str, part: tuple[tuple[str, int], ...], count: int, device: str) -> SequenceDataset:
    """The training sequences of a part of a data set, with a number of parts of each; loaded once.

    Args:
        data: Name of the data set.
        part: Items of the dictionary that ``splits.load_splits`` takes, in order.
        count: Number of parts of each sequence.
        device: Device of the inputs.
    """
    train = load_splits(data, dict(part), device).train
    if not count:
        return train
    found = add_parts(train, count)
    if device == "cuda":
        torch.cuda.synchronize()  # it will be read on other streams
    return found


def add_parts(data: SequenceDataset, count: int) -> SequenceDataset:
    """Add contiguous parts of all sequences, a seeded choice: one of every sequence, then another of every sequence.

    A part has between a fifth and four fifths of the steps of its sequence, at least one, and its label.

    Example:
        >>> tokens, lengths, labels = torch.arange(1, 11)[None], torch.tensor([10]), torch.tensor([1])
        >>> texts = SequenceDataset("a", "train", tokens, lengths, labels, ("n", "p"), "made", tuple("abcdefghijk"))
        >>> parts = add_parts(texts, 2)
        >>> parts.inputs[1:, :6].tolist(), parts.lengths.tolist(), parts.labels.tolist()
        ([[3, 4, 5, 6, 7, 8], [7, 8, 9, 10, 0, 0]], [10, 7, 4], [1, 1, 1])
    """
    generator = torch.Generator().manual_seed(_SEED)
    device, steps = data.inputs.device, torch.arange(data.inputs.shape[1])
    inputs, lengths = [data.inputs], [data.lengths]
    for _ in range(count):
        size, place = torch.rand(2, len(data), generator=generator, dtype=torch.float64)
        low, high = _SHARES
        kept = ((low + (high - low) * size) * data.lengths).long().clamp_min(1)
        begins = (place * (data.lengths - kept + 1)).long()
        index = (begins[:, None] + steps).clamp_max(data.inputs.shape[1] - 1).to(device)
        beyond = (steps >= kept[:, None]).to(device)
        shape = (*index.shape, *[1] * (data.inputs.dim() - 2))
        picked = torch.take_along_dim(data.inputs, index.view(shape), 1)
        inputs.append(picked.masked_fill(beyond.view(shape), 0))
        lengths.append(kept)
    return replace(
        data,
        inputs=torch.cat(inputs),
        lengths=torch.cat(lengths),
        labels=data.labels.repeat(count + 1),
        ids=None,
    )
