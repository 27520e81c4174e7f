"""Labeled strings as the tree of their prefixes, in arrays, for algorithms that merge its nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from automata.fa.dfa import DFA
from numpy.typing import NDArray

from sttau.automata.exchange.states import number_states
from sttau.automata.learning.prefix_tree import string_vocabulary
from sttau.data.dataset import SequenceDataset

NONE = -1  # child where no string goes on


class LabeledTree(NamedTuple):
    """The tree of prefixes, breadth first: nodes in the order of length, then of symbols.

    Attributes:
        parents: (nodes,) parent of each node; that of the root is the root.
        symbols: (nodes,) last symbol of each prefix.
        counts: (nodes, 2) copies of the prefix that are labeled 0 and 1.
        children: (nodes, symbols) node after each symbol, or -1.
        alphabet: Symbols.
    """

    parents: NDArray[np.int32]
    symbols: NDArray[np.int32]
    counts: NDArray[np.float64]
    children: NDArray[np.int32]
    alphabet: tuple[str, ...]

    @property
    def labels(self) -> float:
        """Number of labels."""
        return float(self.counts.sum())


def labeled_tree(data: SequenceDataset) -> LabeledTree:
    """Return the tree of the prefixes of labeled strings.

    Args:
        data: Strings that begin with a start token, with labels 0 and 1.

    Example:
        >>> from sttau.automata import as_dataset
        >>> tree = labeled_tree(as_dataset(["", "ab", "b"], [True, False, True], "ab"))
        >>> tree.parents.tolist(), tree.counts.tolist()
        ([0, 0, 0, 1], [[0.0, 1.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    """
    vocabulary = string_vocabulary(data)
    if len(data.class_names) != 2:
        raise ValueError(f"strings must have two labels, reject and accept, got {', '.join(data.class_names)}")
    start = int(data.inputs[0, 0])
    tokens = [token for token in range(len(vocabulary)) if token != start]
    place = np.zeros(len(vocabulary), dtype=np.int64)
    place[tokens] = np.arange(len(tokens))
    inputs, lengths, labels = data.inputs.numpy(), data.lengths.numpy(), data.labels.numpy()
    node = np.zeros(len(inputs), dtype=np.int64)  # the node of each string so far
    parents, symbols, first = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], 1
    below = 0  # the first node of the level above
    counts = [np.zeros((1, 2))]
    for step in range(1, int(lengths.max()) + 1):
        here = lengths == step
        np.add.at(counts[-1], (node[here] - below, labels[here]), 1)
        alive = lengths > step
        if not alive.any():
            break
        keys, inverse = np.unique(node[alive] * len(tokens) + place[inputs[alive, step]], return_inverse=True)
        node[alive] = first + inverse
        parents.append(keys // len(tokens))
        symbols.append(keys % len(tokens))
        counts.append(np.zeros((len(keys), 2)))
        below, first = first, first + len(keys)
    parent, symbol = (np.concatenate(parts).astype(np.int32) for parts in (parents, symbols))
    children = np.full((first, len(tokens)), NONE, dtype=np.int32)
    children[parent[1:], symbol[1:]] = np.arange(1, first)
    return LabeledTree(parent, symbol, np.concatenate(counts), children, tuple(vocabulary[token] for token in tokens))


def moves_of(dfa: DFA, alphabet: tuple[str, ...]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the moves of a complete DFA, (states, symbols), with states in breadth-first order, and which accept."""
    number = number_states(dfa)
    moves = np.array([[number[dfa.transitions[state][symbol]] for symbol in alphabet] for state in number], np.int32)
    return moves, np.array([state in dfa.final_states for state in number])


def dfa_of(moves: NDArray[np.int32], accepting: NDArray[np.bool_], alphabet: tuple[str, ...]) -> DFA:
    """Return a DFA with the given moves, (states, symbols); state 0 is the initial one."""
    rows = moves.tolist()
    return DFA(
        states=set(range(len(rows))),
        input_symbols=set(alphabet),
        transitions={state: dict(zip(alphabet, row, strict=True)) for state, row in enumerate(rows)},
        initial_state=0,
        final_states=set(np.flatnonzero(accepting).tolist()),
    )
