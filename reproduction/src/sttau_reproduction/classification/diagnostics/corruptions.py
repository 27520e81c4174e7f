"""Corruptions of input, from severity 0 (none) to 5: pure functions of inputs, lengths, severity and generator.

Heartbeats are (beats, time, features), scaled to [0, 1], with zeros after their end; reviews are (reviews, time) token
ids. All are on the CPU, and so is the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import torch
from torch import Tensor

from sttau.data.text import PADDING, UNKNOWN
from sttau.padding import valid_steps

#: Severities that are evaluated.
SEVERITIES = (1, 2, 3, 4, 5)
_NOISE = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)  # standard deviations
_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)  # of samples or words
_STRETCHES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # of a beat

#: Inputs and lengths after a corruption.
Corrupted = tuple[Tensor, Tensor]
Corruption = Callable[[Tensor, Tensor, int, torch.Generator], Corrupted]


def add_noise(inputs: Tensor, lengths: Tensor, severity: int, generator: torch.Generator) -> Corrupted:
    """Add Gaussian noise to every sample of a beat; the zeros after it stay.

    Example:
        >>> beats = torch.tensor([[[0.5], [1.0], [0.0], [0.0]]])
        >>> noisy, _ = add_noise(beats, torch.tensor([4]), 1, torch.Generator().manual_seed(0))
        >>> (noisy != beats).flatten().tolist()
        [True, True, False, False]
    """
    noise = _NOISE[severity] * torch.randn(inputs.shape, generator=generator)
    return torch.where(_in_beat(inputs), inputs + noise, inputs), lengths


def drop_samples(inputs: Tensor, lengths: Tensor, severity: int, generator: torch.Generator) -> Corrupted:
    """Set a share of the samples to zero, each independently.

    Example:
        >>> beats, _ = drop_samples(torch.ones(1, 8, 1), torch.tensor([8]), 5, torch.Generator().manual_seed(0))
        >>> int((beats == 0).sum())
        5
    """
    lost = torch.rand(inputs.shape, generator=generator) < _SHARES[severity]
    return inputs.masked_fill(lost, 0), lengths


def take_lead_off(inputs: Tensor, lengths: Tensor, severity: int, generator: torch.Generator) -> Corrupted:
    """Hold the value at which a stretch of a beat begins until that stretch ends; where it begins is uniform.

    Example:
        >>> beats = torch.arange(1.0, 11.0)[None, :, None]
        >>> take_lead_off(beats, torch.tensor([10]), 5, torch.Generator().manual_seed(0))[0].flatten().tolist()
        [1.0, 2.0, 3.0, 3.0, 3.0, 3.0, 3.0, 8.0, 9.0, 10.0]
    """
    ends = _in_beat(inputs).sum(1)  # (beats, 1) steps of each beat
    held = (_STRETCHES[severity] * ends).long()
    first = (torch.rand(ends.shape, generator=generator) * (ends - held + 1)).long().clamp_max(inputs.shape[1] - 1)
    step = torch.arange(inputs.shape[1])[None]
    flat = (step >= first) & (step < first + held)
    value = inputs[torch.arange(len(inputs))[:, None], first]  # (beats, 1, features)
    return torch.where(flat[:, :, None], value, inputs), lengths


def misspell(
    inputs: Tensor, lengths: Tensor, severity: int, generator: torch.Generator, vocabulary: tuple[str, ...]
) -> Corrupted:
    """Swap two neighboring characters of a share of the words, at a uniform place.

    What results is another word if the vocabulary has it, the unknown token otherwise. Words of a single character, and
    those whose swapped characters are equal, stay.

    Example:
        >>> words = ("<pad>", "<unk>", "on", "no", "film")
        >>> ids = torch.tensor([[2, 2, 2, 2, 4, 4, 4, 4]])
        >>> misspell(ids, torch.tensor([8]), 5, torch.Generator().manual_seed(0), words)[0].tolist()
        [[3, 2, 3, 3, 1, 4, 1, 4]]
    """
    table, places = _swaps(vocabulary)
    wrong = (torch.rand(inputs.shape, generator=generator) < _SHARES[severity]) & valid_steps(inputs, lengths)
    ids = inputs[wrong].long()
    count = places[ids]
    place = (torch.rand(ids.shape, generator=generator) * count).long()
    found = inputs.clone()
    found[wrong] = torch.where(count > 0, table[ids, place], ids).to(inputs.dtype)
    return found, lengths


def delete_words(inputs: Tensor, lengths: Tensor, severity: int, generator: torch.Generator) -> Corrupted:
    """Delete a share of the words, each independently; at least one of each review remains.

    Example:
        >>> ids, lengths = torch.arange(1, 9)[None], torch.tensor([8])
        >>> ids, lengths = delete_words(ids, lengths, 5, torch.Generator().manual_seed(0))
        >>> ids.tolist(), lengths.tolist()
        ([[2, 6, 8, 0, 0, 0, 0, 0]], [3])
    """
    drawn = torch.rand(inputs.shape, generator=generator).masked_fill(~valid_steps(inputs, lengths), -1)
    drawn[torch.arange(len(drawn)), drawn.argmax(1)] = 1  # it remains
    kept = drawn >= _SHARES[severity]
    kept &= valid_steps(inputs, lengths)
    order = (~kept).to(torch.uint8).argsort(dim=1, stable=True)
    shorter = kept.sum(1)
    moved = inputs.gather(1, order)
    return moved.masked_fill(~valid_steps(moved, shorter), 0), shorter


def corruptions_of(vocabulary: Sequence[str] | None) -> dict[str, Corruption]:
    """Corruptions by name: those of texts for a vocabulary, those of heartbeats without one.

    Example:
        >>> list(corruptions_of(None)), list(corruptions_of(("<pad>", "<unk>", "film")))
        (['noise', 'dropped', 'lead_off'], ['typos', 'deleted'])
    """
    if vocabulary is None:
        return {"noise": add_noise, "dropped": drop_samples, "lead_off": take_lead_off}
    return {"typos": partial(misspell, vocabulary=tuple(vocabulary)), "deleted": delete_words}


def _in_beat(inputs: Tensor) -> Tensor:
    """(beats, time, 1) whether a step comes before the zeros at the end."""
    return (inputs != 0).any(-1, keepdim=True).flip(1).cummax(1).values.flip(1)


@cache
def _swaps(vocabulary: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """(words, places) the token after each swap of neighboring characters, and (words,) the number of places."""
    ids = {word: number for number, word in enumerate(vocabulary)}
    signs = {PADDING, UNKNOWN}
    found: list[list[int]] = []
    for word in vocabulary:
        places = range(0 if word in signs else len(word) - 1)
        swapped = (word[:n] + word[n + 1] + word[n] + word[n + 2 :] for n in places)
        found.append([ids.get(other, ids[UNKNOWN]) for other in swapped])
    table = torch.zeros(len(found), max(1, *map(len, found)), dtype=torch.long)
    for row, line in zip(table, found, strict=True):
        row[: len(line)] = torch.tensor(line, dtype=torch.long)
    return table, torch.tensor([len(line) for line in found])
