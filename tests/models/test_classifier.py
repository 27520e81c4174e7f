"""Classifiers: their exact logits and their loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from tests.models.small_models import DOUBLE, batch_for, bold, both_inputs, close, path_sum, table

# -- shapes and what the head reads --------------------------------------------------------------------------


def test_every_state_has_a_distribution_of_labels() -> None:
    model = bold(SequenceClassifier(STTauGRU(2, 4, 3), 5))
    logits = model.state_logits()
    assert logits.shape == (3, 5)
    close(logits.exp().sum(-1), torch.ones(3, dtype=DOUBLE))
    close(logits.exp(), model.head(model.layer.states).softmax(-1))


# -- exact mode ----------------------------------------------------------------------------------------------


@both_inputs
def test_exact_logits_are_the_logarithm_of_the_path_sum(tokens: bool) -> None:
    model = bold(SequenceClassifier(STTauGRU(2, 4, 3, mode="exact"), 3, table(tokens)))
    x, lengths = batch_for(tokens), [4, 2, 1]
    logits = model(x, torch.tensor(lengths))
    steps = model(x, torch.tensor(lengths), per_step=True)
    close(logits.exp().sum(-1), torch.ones(3, dtype=DOUBLE))
    close(steps.exp().sum(-1), torch.ones(3, 4, dtype=DOUBLE))
    features = x if model.embedding is None else model.embedding(x).detach()
    for row, length in enumerate(lengths):
        for step in range(4):
            read = features[row, : min(length, step + 1)]
            close(steps[row, step], path_sum(model, read, lambda h: model.head(h).softmax(-1)).log())
        close(logits[row], steps[row, -1])


# -- losses --------------------------------------------------------------------------------------------------


def test_the_classifier_s_loss_is_cross_entropy() -> None:
    model, x = bold(SequenceClassifier(STTauGRU(2, 4, 3, mode="exact"), 3)), batch_for(tokens=False)
    labels = torch.tensor([2, 0, 1])
    p = model(x, torch.tensor([4, 2, 1])).exp()
    close(model.loss(x, labels, torch.tensor([4, 2, 1])), -p[[0, 1, 2], labels].log().mean())


# -- states with fixed labels (the paper's Algorithm 2) ---------------------------------------------------------------


def test_exact_training_drops_the_same_of_a_token_and_of_a_state_in_the_whole_batch() -> None:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 6, 3, mode="exact"), 2, nn.Embedding(9, 4), dropout=0.5).double()
    tokens = torch.tensor([[1, 2, 1, 3], [3, 1, 1, 2], [1, 2, 1, 3]])
    torch.manual_seed(1)
    assert model.embedding is not None
    layer = model.finite_state_layer
    vectors, states = F.dropout(model.embedding.weight, 0.5), F.dropout(layer.states, 0.5)
    pi = layer.state_distribution(vectors[tokens])[:, -1]
    torch.manual_seed(1)
    found = model(tokens).exp()
    torch.testing.assert_close(found, pi @ model.head(states).softmax(-1))
    assert torch.equal(found[0], found[2])
    model.eval()
    torch.testing.assert_close(model(tokens), model(tokens))
