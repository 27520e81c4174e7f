"""Folds of random labels, for the likelihood of labels that were held out."""

from __future__ import annotations

import numpy as np
import torch

from sttau.automata.learning.prefix_tree import PrefixTree

_FOLDS = 5


def fold_counts(tree: PrefixTree, seed: int) -> list[tuple[PrefixTree, PrefixTree]]:
    """Divide labels into five folds at random, each label on its own, and return the others and each fold.

    Args:
        tree: Tree whose counts are whole numbers.
        seed: Seed of the division.

    Example:
        >>> from sttau.data import load
        >>> tree = PrefixTree(load("stochastic1", "train"))
        >>> folds = fold_counts(tree, seed=0)
        >>> len(folds), all(torch.equal(kept.counts + other.counts, tree.counts) for kept, other in folds)
        (5, True)
    """
    counts = tree.counts.numpy()
    if (counts != counts.round()).any():
        raise ValueError(
            "held-out likelihood needs whole numbers as frequencies, counts of labels and not probabilities"
        )
    source = np.random.default_rng([seed, 11])
    parts = source.multinomial(counts.astype(np.int64), np.full(_FOLDS, 1 / _FOLDS))  # (nodes, classes, folds)
    held = [torch.from_numpy(parts[..., fold]).to(tree.counts) for fold in range(_FOLDS)]
    return [(tree.with_counts(tree.counts - part), tree.with_counts(part)) for part in held]
