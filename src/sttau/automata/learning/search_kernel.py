"""Numba kernels of the search for an automaton under wrong labels: errors of an automaton, descent, merging.

The labeled strings are the tree of their prefixes, breadth first: each node has its parent, its last symbol, and the
numbers of its rejected and accepted copies. Arrays are allocated by the caller.
"""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sttau.engine.simd import kernel

NONE = -1  # child where no string goes on


@njit(nogil=True, _nrt=False)
def _errors(parents: Any, symbols: Any, counts: Any, moves: Any, states: Any, totals: Any) -> float:
    """Labels that differ from the majority in their state; ``states`` and ``totals`` are filled."""
    totals[:] = 0
    states[0] = 0
    totals[0, 0] += counts[0, 0]
    totals[0, 1] += counts[0, 1]
    for node in range(1, len(parents)):
        state = moves[states[parents[node]], symbols[node]]
        states[node] = state
        totals[state, 0] += counts[node, 0]
        totals[state, 1] += counts[node, 1]
    wrong = 0.0
    for state in range(len(totals)):
        wrong += min(totals[state, 0], totals[state, 1])
    return wrong


@kernel
def count_errors(
    parents: NDArray[np.int32],
    symbols: NDArray[np.int32],
    counts: NDArray[np.float64],
    moves: NDArray[np.int32],
    states: NDArray[np.int32],
    totals: NDArray[np.float64],
) -> float:
    """Return the number of labels that differ from the majority in their state.

    Fills ``states``, the state of each node, and ``totals``, (states, 2) labels that end in each state.
    """
    return float(_errors(parents, symbols, counts, moves, states, totals))


@kernel
def descend(
    parents: NDArray[np.int32],
    symbols: NDArray[np.int32],
    counts: NDArray[np.float64],
    moves: NDArray[np.int32],
    order: NDArray[np.int32],
    states: NDArray[np.int32],
    totals: NDArray[np.float64],
) -> float:
    """Change single moves, in the given order of edges, as long as that removes errors; return the errors left.

    For each edge the target with the fewest errors is taken. An edge is the number state · symbols + symbol.
    """
    width = moves.shape[1]
    best: float = _errors(parents, symbols, counts, moves, states, totals)
    unchanged = 0
    while unchanged < len(order):
        for edge in order:
            state, symbol = edge // width, edge % width
            old = moves[state, symbol]
            chosen = old
            for target in range(len(moves)):
                if target != old:
                    moves[state, symbol] = target
                    wrong = _errors(parents, symbols, counts, moves, states, totals)
                    if wrong < best:
                        best, chosen = wrong, target
            moves[state, symbol] = chosen
            unchanged = 0 if chosen != old else unchanged + 1
            if unchanged >= len(order):
                break
    return best


@njit(nogil=True, _nrt=False)
def _evidence(rejected: float, accepted: float, right: float, wrong: float) -> float:
    """Log-probability of the labels of one state whose own label is unknown; arguments are logs of 1 − p and of p."""
    first = rejected * right + accepted * wrong
    second = rejected * wrong + accepted * right
    return max(first, second) + log(1 + exp(-abs(first - second))) - log(2.0)


@njit(nogil=True, _nrt=False)
def _fold(
    children: Any, counts: Any, origin: int, symbol: int, red: int, node: int, right: float, wrong: float, journal: Any
) -> tuple[float, int]:
    """Fold the subtree of a node into a red state; return the gain in log-probability and the length of the journal.

    The journal holds what changed: list, place and old value. From its end it is the stack of pairs still to fold.
    """
    width = children.shape[1]
    size, top = 0, len(journal)
    journal[size, 0], journal[size, 1], journal[size, 2] = 2, origin * width + symbol, children[origin, symbol]
    size += 1
    children[origin, symbol] = red
    gain = 0.0
    top -= 1
    journal[top, 0], journal[top, 1] = red, node
    while top < len(journal):
        kept, folded = int(journal[top, 0]), int(journal[top, 1])
        top += 1
        a, b, c, d = counts[kept, 0], counts[kept, 1], counts[folded, 0], counts[folded, 1]
        if c + d > 0:
            gain += _evidence(a + c, b + d, right, wrong)
            gain -= _evidence(a, b, right, wrong) + _evidence(c, d, right, wrong)
            if c > 0:
                journal[size, 0], journal[size, 1], journal[size, 2] = 0, kept, a
                size += 1
                counts[kept, 0] = a + c
            if d > 0:
                journal[size, 0], journal[size, 1], journal[size, 2] = 1, kept, b
                size += 1
                counts[kept, 1] = b + d
        for letter in range(width):
            child = children[folded, letter]
            if child != NONE:
                own = children[kept, letter]
                if own == NONE:
                    journal[size, 0], journal[size, 1], journal[size, 2] = 2, kept * width + letter, NONE
                    size += 1
                    children[kept, letter] = child
                else:
                    top -= 1
                    journal[top, 0], journal[top, 1] = own, child
    return gain, size


@njit(nogil=True, _nrt=False)
def _undo(children: Any, counts: Any, journal: Any, size: int) -> None:
    width = children.shape[1]
    for entry in range(size - 1, -1, -1):
        kind, place = int(journal[entry, 0]), int(journal[entry, 1])
        if kind == 2:
            children[place // width, place % width] = int(journal[entry, 2])
        else:
            counts[place, kind] = journal[entry, 2]


@kernel
def merge_states(
    children: NDArray[np.int32],
    counts: NDArray[np.float64],
    noise: float,
    threshold: float,
    largest: int,
    red: NDArray[np.int32],
    is_red: NDArray[np.bool_],
    journal: NDArray[np.float64],
) -> int:
    """Merge the nodes of a tree as long as that makes its labels more probable; return the number of states.

    The gain of a merge is the change in the log-probability of the labels, if each is wrong with probability ``noise``
    and the labels of states are fair coins. Of all pairs of a red state and a child of one that is not red (blue), the
    one with the largest gain is merged, unless a blue node has no merge with a gain above ``threshold``: the one of
    these with the smallest best gain becomes red. ``children`` and ``counts`` are changed; ``red`` is filled.
    """
    width = children.shape[1]
    right, wrong = log(1 - noise), log(noise)
    red[0] = 0
    is_red[0] = True
    size = 1
    while True:
        best, best_origin, best_symbol, best_red = -np.inf, NONE, NONE, NONE
        lowest, new = np.inf, NONE
        for place in range(size):
            origin = red[place]
            for symbol in range(width):
                node = children[origin, symbol]
                if node == NONE or is_red[node]:
                    continue
                own, partner = -np.inf, NONE
                for other in range(size):
                    gain, used = _fold(children, counts, origin, symbol, red[other], node, right, wrong, journal)
                    _undo(children, counts, journal, used)
                    if gain > own:
                        own, partner = gain, red[other]
                if own < lowest:
                    lowest, new = own, node
                if own > best:
                    best, best_origin, best_symbol, best_red = own, origin, symbol, partner
        if best_origin == NONE:
            return size
        if lowest < threshold and size < largest:
            red[size] = new
            is_red[new] = True
            size += 1
        else:
            node = children[best_origin, best_symbol]
            _fold(children, counts, best_origin, best_symbol, best_red, node, right, wrong, journal)
