"""Networks that are trained on a tree of prefixes, and one update of them."""

from __future__ import annotations

import torch
from torch import nn

from sttau.automata.learning.prefix_tree import PrefixTree, string_vocabulary
from sttau.data.dataset import SequenceDataset
from sttau.layers import LayerMode, STTauGRU
from sttau.models import Head, SequenceClassifier
from sttau.seeds import seeded
from sttau.training import Update


def new_network(
    data: SequenceDataset, num_states: int, hidden: int, embedded: int, mode: LayerMode, head: Head, seed: int
) -> SequenceClassifier:
    """Return a new network with seeded weights; PyTorch's global generator is not changed."""
    with seeded(seed, cpu_only=True):
        layer = STTauGRU(embedded, hidden, num_states, mode=mode)
        model = SequenceClassifier(
            layer, len(data.class_names), nn.Embedding(len(string_vocabulary(data)), embedded), head=head
        )
    model.set_metadata(data)
    return model


def tree_update(
    model: SequenceClassifier,
    tree: PrefixTree,
    optimizer: torch.optim.Optimizer,
    depth: int,
    number: int,
    total: int,
) -> tuple[float, Update]:
    """Make one update on the strings of at most ``depth`` symbols; return its loss and its log entry."""
    loss = tree.loss(model, depth)
    optimizer.zero_grad()
    loss.backward()
    norm = float(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    optimizer.step()
    value = float(loss.detach())
    return value, Update(
        number, total, value, (float(model.finite_state_layer.temperature.detach()),), gradient_norm=norm
    )
