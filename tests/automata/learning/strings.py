"""Labeled strings and a small network over them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import product

import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from sttau.data import SequenceDataset
from sttau.data.strings import as_dataset
from sttau.models import Head


def small_model(states: int = 5, head: Head = "dense") -> SequenceClassifier:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 8, states, mode="exact"), 2, nn.Embedding(3, 4), head=head)
    with torch.no_grad():
        model.finite_state_layer.states.mul_(3)
    return model


def labeled(strings: list[str], inside: Callable[[str], bool], alphabet: str = "ab") -> SequenceDataset:
    return as_dataset(strings, [inside(string) for string in strings], alphabet)


def hash_of(string: str) -> int:
    return int.from_bytes(hashlib.sha256(string.encode()).digest()[:4], "big")


ALL = ["".join(word) for length in range(9) for word in product("ab", repeat=length)]
