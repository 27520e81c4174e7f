"""A vocabulary, and a random network over it whose automata have several states."""

from __future__ import annotations

import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from sttau.data import load

VOCABULARY = ("^", "0", "1")


def random_network(states: int = 5, temperature: float = 1.5) -> SequenceClassifier:
    torch.manual_seed(39)  # with five states, both tables then have two reachable groups
    model = SequenceClassifier(STTauGRU(4, 8, states, temperature=temperature), 2, nn.Embedding(3, 4))
    assert model.embedding is not None
    with torch.no_grad():
        model.finite_state_layer.states.mul_(2)
        model.head.weight.mul_(4)
        model.embedding.weight.mul_(6)
    model.set_metadata(load("tomita3", "train"))
    return model.double()
