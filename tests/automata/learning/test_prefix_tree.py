from __future__ import annotations

import pytest
import torch

from sttau.automata import PrefixTree
from sttau.data import load
from sttau.models import Head
from tests.automata.learning.strings import small_model


@pytest.mark.parametrize("head", ["dense", "halves"])
def test_the_tree_gives_the_loss_and_the_gradient_of_the_strings_one_by_one(head: Head) -> None:
    data = load("stochastic1", "train").select(torch.arange(0, 10170, 7))
    model = small_model(4, head).double()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    tree = PrefixTree(data).double().loss(model)
    single = model.loss(data.inputs, data.labels, data.lengths)
    torch.testing.assert_close(tree, single)
    for ours, theirs in zip(
        torch.autograd.grad(tree, parameters, allow_unused=True),
        torch.autograd.grad(single, parameters, allow_unused=True),
        strict=True,
    ):
        if theirs is not None:
            torch.testing.assert_close(ours, theirs)


def test_the_first_levels_of_the_tree_are_the_shorter_strings() -> None:
    data, model = load("tomita5", "train"), small_model()
    short = data.select(data.lengths <= 5)
    torch.testing.assert_close(
        PrefixTree(data).loss(model, depth=4), model.loss(short.inputs, short.labels, short.lengths)
    )


def test_copies_and_their_frequencies_are_the_same() -> None:
    data, model = load("stochastic1", "train"), small_model()
    once = data.select(torch.arange(0, len(data), 10))
    accepted = data.labels.view(-1, 10).sum(-1)
    tree = PrefixTree(once, torch.stack([10 - accepted, accepted], -1).float())
    torch.testing.assert_close(tree.loss(model), PrefixTree(data).loss(model))
    assert tree.counts.sum() == len(data)


def test_lengths_have_equal_weight_after_reweighting() -> None:
    tree = PrefixTree(load("stochastic2", "train")).weighted_by_length()
    sums = [float(tree.counts[begin:end].sum()) for begin, end in zip([0, *tree.ends], tree.ends, strict=False)]
    assert sums == pytest.approx([0.0] + [1.0] * 10)
