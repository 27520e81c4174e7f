"""The tree of prefixes of labeled strings, and their exact likelihood.

A GRU-form network over a finite alphabet is a table of k × k matrices (docs/mathematics.md, §4), so the distribution of
the state after a prefix is the distribution after a shorter prefix times one matrix. All training strings together are
a tree of prefixes: each prefix is computed once, whatever the number of strings and copies that share it, and an update
on the whole training set takes milliseconds.
"""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor, nn

from sttau.data.dataset import SequenceDataset
from sttau.data.strings import START
from sttau.models import SequenceClassifier


class PrefixTree:
    """Labeled strings as the tree of their prefixes, from which their likelihood is computed exactly.

    Args:
        data: Token sequences that begin with the start token.
        frequencies: (sequences, classes) counts or probabilities of each class, instead of labels.

    Example:
        >>> from sttau.data import load
        >>> tree = PrefixTree(load("stochastic2", "train"))
        >>> tree.counts.shape, int(tree.counts.sum())  # all strings up to length 10, with ten labels each
        (torch.Size([2047, 2]), 20460)
    """

    def __init__(self, data: SequenceDataset, frequencies: Tensor | None = None) -> None:
        size = len(string_vocabulary(data))
        classes = len(data.class_names)
        tokens, lengths = data.inputs, data.lengths
        self.start = int(tokens[0, 0])
        if frequencies is None:
            frequencies = nn.functional.one_hot(data.labels, classes).float()
        elif frequencies.shape != (len(data), classes):
            raise ValueError(f"frequencies must have shape {(len(data), classes)}, got {tuple(frequencies.shape)}")
        node = torch.zeros(len(data), dtype=torch.int64)  # node of each string in the current level
        width = 1
        self.levels: list[list[tuple[int, Tensor]]] = []  # symbol, and the parents of its nodes
        self.ends: list[int] = []  # cumulative number of nodes per level
        counts = []
        for length in range(1, int(lengths.max()) + 1):
            if length > 1:
                alive = lengths >= length
                keys, place = (tokens[alive, length - 1] * width + node[alive]).unique(return_inverse=True)
                node[alive] = place
                symbols, parents = keys // width, keys % width
                self.levels.append([(v, parents[symbols == v]) for v in range(size) if bool((symbols == v).any())])
                width = len(keys)
            here = lengths == length
            counts.append(torch.zeros(width, classes).index_add_(0, node[here], frequencies[here].float()))
            self.ends.append(width + (self.ends[-1] if self.ends else 0))
        self.counts = torch.cat(counts)

    def weighted_by_length(self) -> PrefixTree:
        """Return the same tree, reweighted so that each length has the same total weight."""
        counts = self.counts.clone()
        for begin, end in zip([0, *self.ends], self.ends, strict=False):
            counts[begin:end] /= counts[begin:end].sum().clamp_min(torch.finfo(counts.dtype).tiny)
        return self.with_counts(counts)

    def double(self) -> PrefixTree:
        """Return the same tree in float64."""
        return self.with_counts(self.counts.double())

    def with_counts(self, counts: Tensor) -> PrefixTree:
        """Return the same tree with other counts, (nodes, classes)."""
        other = copy(self)
        other.counts = counts
        return other

    @property
    def depth(self) -> int:
        """Length of the longest string."""
        return len(self.levels)

    def distributions(self, model: SequenceClassifier, depth: int | None = None) -> Tensor:
        """Return the distribution of the state after each prefix of at most ``depth`` symbols: (nodes, k)."""
        assert model.embedding is not None
        vectors = model.embedding.weight
        layer = model.finite_state_layer
        matrices = layer.transition_matrices(vectors)
        states = layer.first_distribution(vectors[[self.start]])
        levels = [states]
        for level in self.levels[:depth]:
            states = torch.cat([states[parents] @ matrices[symbol] for symbol, parents in level])
            levels.append(states)
        return torch.cat(levels)

    def loss(self, model: SequenceClassifier, depth: int | None = None) -> Tensor:
        """Return the mean negative log-likelihood of the labels of all strings of at most ``depth`` symbols, in nats.

        Example:
            >>> from sttau import STTauGRU
            >>> from sttau.data import load
            >>> data = load("tomita1", "train")
            >>> model = SequenceClassifier(STTauGRU(4, 8, num_states=3, mode="exact"), 2, nn.Embedding(3, 4))
            >>> loss = PrefixTree(data).loss(model)
            >>> bool(loss.isclose(model.loss(data.inputs, data.labels, data.lengths)))
            True
        """
        end = self.ends[-1 if depth is None else min(depth, self.depth)]
        chances = self.distributions(model, depth) @ model.state_logits().exp()
        logarithms = chances.clamp_min(torch.finfo(chances.dtype).tiny).log()
        return -(self.counts[:end] * logarithms).sum() / self.counts[:end].sum()


def string_vocabulary(data: SequenceDataset) -> tuple[str, ...]:
    """Return the vocabulary of a data set of strings; an error if it is none, or has no common start token."""
    if data.vocabulary is None or data.inputs.dim() != 2:
        raise ValueError(f"{data.name} must be strings over a vocabulary; automata are learned from tokens")
    if not len(data):
        raise ValueError(f"{data.name} is empty: automata are learned from labeled strings, at least one")
    if not bool((data.inputs[:, 0] == data.inputs[0, 0]).all()):
        raise ValueError(f"all sequences of {data.name} must begin with one start token, such as {START!r}")
    return data.vocabulary


def check_same_alphabet(train: SequenceDataset, other: SequenceDataset) -> None:
    """Raise an error if strings are not over the alphabet of the training strings, with the same start token."""
    ours, theirs = string_vocabulary(train), string_vocabulary(other)
    if ours != theirs:
        raise ValueError(
            f"validation is over the vocabulary {', '.join(theirs)}, but train over {', '.join(ours)}: tokens would "
            "mean other symbols. Encode both with one alphabet, for instance as_dataset(strings, labels, alphabet)"
        )
    if int(train.inputs[0, 0]) != int(other.inputs[0, 0]):
        raise ValueError(
            f"validation begins with {theirs[int(other.inputs[0, 0])]!r}, but train with "
            f"{ours[int(train.inputs[0, 0])]!r}; both must have one start token"
        )
