"""Small networks on data that is always there: the embedded digits, and generated reviews."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from sttau.data import SequenceDataset
from sttau.jobs import Cell
from sttau_reproduction.classification import splits
from sttau_reproduction.classification.cells import cells_of
from sttau_reproduction.classification.networks import Network

PART = {"train": 100, "validation": 60, "test": 80}
TRAINING = {"updates": 12, "batch_size": 16, "learning_rate": 0.01, "validate_every": 4, "selection": "error"}

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("lstm", {}),
    "bayes": ("bayes", {}),
    "dropout": ("dropout", {"dropout": 0.2}),
    "st-tau-classes": ("st-tau", {"num_states": 4, "readout": "state"}),
    "ensemble": ("ensemble", {"size": 2}),
    "st-tau-ensemble": ("ensemble", {"num_states": 4, "readout": "state", "member": "st-tau", "size": 2}),
}


def network(name: str, data: str = "digits", seeds: int = 1, **training: Any) -> Network:
    method, settings = METHODS[name]
    sizes = {"cell": "lstm", "hidden_size": 6} | ({"embedding_size": 5} if data == "imdb" else {})
    return Network(name, data, method, sizes | settings, TRAINING | training, seeds, PART)


def cells(*names: str, data: str = "digits", seeds: int = 1, **training: Any) -> list[Cell]:
    return cells_of([network(name, data, seeds, **training) for name in names])


def reviews(name: str, split: str) -> SequenceDataset:
    """Sentences of the words good and bad between others; OOD ones are short."""
    ood = name != "imdb"
    generator = torch.Generator().manual_seed(sum(map(ord, name + split)))
    count, longest = (30, 6) if ood else (120, 20)
    lengths = torch.randint(2, longest + 1, (count,), generator=generator)
    inputs = torch.randint(2, 12, (count, longest), generator=generator, dtype=torch.int32)
    inputs[torch.arange(longest) >= lengths[:, None]] = 0
    vocabulary = ("<pad>", "<unk>", "good", "bad", *(f"word{number}" for number in range(8)))
    labels = ((inputs == 2).sum(1) > (inputs == 3).sum(1)).long()
    return SequenceDataset(name, split, inputs, lengths, labels, ("negative", "positive"), "generated", vocabulary)


@contextmanager
def generated_reviews() -> Iterator[None]:
    """In this context, IMDB and the OOD reviews are generated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits, "load", reviews)
        splits._load_once.cache_clear()
        yield
    splits._load_once.cache_clear()
