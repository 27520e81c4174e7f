"""State merging: the smallest automata that labeled strings suggest, by RPNI and by evidence-driven merging.

Both start from the tree of prefixes of the strings and merge its nodes as long as no label is contradicted. Nodes that
are known to be different states are red, their other children blue; a blue node is merged with a red one, and its
subtree is folded into the red states, or it becomes red where no merge is possible. RPNI (Oncina and García, 1992)
takes blue nodes in the order of their shortest strings and makes the first merge that is possible. EDSM (Lang,
Pearlmutter and Price, 1998) makes the merge with the most evidence: the number of labels that agree when the subtrees
are folded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from automata.fa.dfa import DFA

from sttau.automata.learning.labeled_tree import NONE, LabeledTree, labeled_tree
from sttau.data.dataset import SequenceDataset

Order = Literal["evidence", "canonical"]

_UNKNOWN = -1  # label of a prefix that is no string of the data


def learn_by_merging(
    data: SequenceDataset,
    order: Order = "evidence",
    *,
    largest: int = 100,
    stop: Callable[[], bool] = lambda: False,
) -> DFA | None:
    """Return a DFA that labels all strings of the data correctly, by state merging; None if it would be too large.

    Its states are numbered in the order in which they became red, from 0, the initial state. A move that no string
    takes is a self-loop, and a state in which no string ends rejects.

    Args:
        data: Labeled strings that begin with a start token; class 1 means "in the language".
        order: ``evidence`` for EDSM, ``canonical`` for RPNI.
        largest: Largest number of states.
        stop: Function called before every merge, which ends the search without a result by a true answer.

    Example:
        >>> from sttau.automata import compare, tomita
        >>> from sttau.data import load
        >>> compare(learn_by_merging(load("tomita5", "train")), tomita(5))
        Equivalence(equal=True, counterexample=None)
    """
    tree = labeled_tree(data)
    if bool((tree.counts > 0).all(-1).any()):
        raise ValueError(
            "the strings have contradictory labels: use learn_with_noise if some labels are wrong, learn_stochastic "
            "for a stochastic language"
        )
    fringe = _Fringe(tree)
    while blue := fringe.blue():
        if stop():
            return None
        choice = fringe.most_evident(blue) if order == "evidence" else fringe.first_possible(blue)
        if choice.red is None:
            fringe.red.append(choice.blue)
            if len(fringe.red) > largest:
                return None
        else:
            fringe.merge(choice.red, choice.blue)
    return fringe.automaton(tree.alphabet)


class _Choice(NamedTuple):
    """A blue node, and the red one that it is merged with; None if it becomes red."""

    blue: int
    red: int | None


class _Fringe:
    """Red states, and the tree that hangs from them."""

    def __init__(self, tree: LabeledTree) -> None:
        self.children: list[list[int]] = tree.children.tolist()
        self.parents: list[int] = tree.parents.tolist()
        self.labels: list[int] = np.where(tree.counts.any(-1), tree.counts[:, 1] > 0, _UNKNOWN).tolist()
        self.symbols = range(len(tree.alphabet))
        self.red = [0]
        self._changes: list[tuple[list[int], int, int]] = []  # list, place and old value of each change of a merge

    def blue(self) -> list[int]:
        """Return the children of red states that are not red, in the order of their prefixes."""
        known = set(self.red)
        found = {child for state in self.red for child in self.children[state] if child != NONE}
        return sorted(found - known)

    def most_evident(self, blue: list[int]) -> _Choice:
        """Return the first blue node that cannot be merged, or else the merge with the most evidence."""
        best, most = _Choice(blue[0], None), -1
        for node in blue:
            possible = False
            for state in self.red:
                evidence = self._try(state, node)
                if evidence is not None:
                    possible = True
                    if evidence > most:
                        best, most = _Choice(node, state), evidence
            if not possible:
                return _Choice(node, None)
        return best

    def first_possible(self, blue: list[int]) -> _Choice:
        """Return the first blue node with the first red one that it can be merged with."""
        possible = (state for state in self.red if self._try(state, blue[0]) is not None)
        return _Choice(blue[0], next(possible, None))

    def merge(self, state: int, node: int) -> None:
        """Merge a blue node, and what hangs from it, with a red state."""
        self._fold(state, node)
        self._changes.clear()

    def _try(self, state: int, node: int) -> int | None:
        """Return the evidence of a merge, which is undone; None if a label is contradicted."""
        evidence = self._fold(state, node)
        for values, place, old in reversed(self._changes):
            values[place] = old
        self._changes.clear()
        return evidence

    def _fold(self, state: int, node: int) -> int | None:
        """Fold the tree below a blue node into the automaton at a red state; count the labels that agree."""
        parent = self.children[self.parents[node]]
        self._set(parent, parent.index(node), state)
        evidence, pairs = 0, [(state, node)]
        while pairs:
            kept, folded = pairs.pop()
            label, other = self.labels[kept], self.labels[folded]
            if other != _UNKNOWN:
                if label == _UNKNOWN:
                    self._set(self.labels, kept, other)
                elif label != other:
                    return None
                else:
                    evidence += 1
            own = self.children[kept]
            for symbol, child in enumerate(self.children[folded]):
                if child == NONE:
                    continue
                if own[symbol] == NONE:
                    self._set(own, symbol, child)
                    self._set(self.parents, child, kept)
                else:
                    pairs.append((own[symbol], child))
        return evidence

    def _set(self, values: list[int], place: int, value: int) -> None:
        self._changes.append((values, place, values[place]))
        values[place] = value

    def automaton(self, alphabet: tuple[str, ...]) -> DFA:
        """Return the red states as a complete DFA."""
        number = {node: place for place, node in enumerate(self.red)}
        return DFA(
            states=set(number.values()),
            input_symbols=set(alphabet),
            transitions={
                place: {alphabet[symbol]: number.get(self.children[node][symbol], place) for symbol in self.symbols}
                for node, place in number.items()
            },
            initial_state=0,
            final_states={place for node, place in number.items() if self.labels[node] == 1},
        )
