"""Regular languages from strings of which some labels are wrong: the most probable automaton and its odds.

Each label is wrong with an unknown probability p, uniform on [0, 1/2]. Automata of n states over m symbols are equally
probable a priori, and n has probability 1 / (n (n + 1)). With E wrong labels of N, integrated over p,

    log posterior = log 2 B(E + 1, N − E + 1) − n m log n − n log 2 + log (n − 1)! − log n (n + 1) + constant.

The search starts from state merging by the probability of labels, for several p; single moves are changed as long as
errors vanish; states are removed, split and redirected at random as long as that finds more probable automata.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from automata.fa.dfa import DFA
from numpy.typing import NDArray

from sttau.automata.learning.labeled_tree import LabeledTree, dfa_of, labeled_tree, moves_of
from sttau.checks import as_integer
from sttau.data.dataset import SequenceDataset

#: Called with the number of rounds so far, the number of errors and of states of the best automaton; a true answer ends
#: the search.
Report = Callable[[int, int, int], bool | None]

_Moves = NDArray[np.int32]

_RATES = (0.01, 0.03, 0.06, 0.1, 0.15, 0.25)  # noise rates that state merging assumes
_THRESHOLDS = (-6.0, 0.0)  # gains in log-probability below which a node becomes a state of its own
_EXTRA = 1.5  # merging may find more states than the largest automaton by this factor; they are removed later


@dataclass(frozen=True)
class NoisyFit:
    """The most probable automaton of labeled strings, some of whose labels may be wrong.

    Attributes:
        dfa: Minimal DFA.
        noise: Estimated probability that a label is wrong: (wrong + 1) / (labels + 2), the posterior mean.
        wrong: Number of labels that differ from the automaton's.
        labels: Number of labels.
        log_posterior: Logarithm of the posterior, up to a constant of the data.
        log_odds: Logarithm of the posterior odds against all other languages that were seen: those of the search and
            those that differ in one move or label.
        rival: The most probable automaton with another language.
        gain: Log-posterior minus that of the best automaton with a single state, which ignores the strings.
        rounds: Rounds of the search.
    """

    dfa: DFA
    noise: float
    wrong: int
    labels: int
    log_posterior: float
    log_odds: float
    rival: DFA | None
    gain: float
    rounds: int


def learn_with_noise(
    data: SequenceDataset,
    *,
    largest: int = 20,
    rounds: int = 100,
    initial: DFA | None = None,
    seed: int = 0,
    report: Report | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> NoisyFit:
    """Return the most probable DFA of labeled strings, if some labels may be wrong.

    Strings may occur several times, with different labels.

    Args:
        data: Labeled strings that begin with a start token; class 1 means "in the language".
        largest: Largest number of states.
        rounds: Rounds of the random search without progress after which it ends.
        initial: Automaton from which the search starts too.
        seed: Seed of the search.
        report: Function called after every round with the number of rounds, of wrong labels and of states; the search
            ends if it returns true.
        stop: Function called between all steps of the search, which ends it by a true answer, such as after a time
            limit; the result is the best automaton so far.

    Example:
        >>> import torch
        >>> from sttau.automata import as_dataset, compare, tomita
        >>> from sttau.languages import accepts
        >>> strings = [format(n, "b")[1:] for n in range(1, 1024)]  # all strings of up to 9 symbols
        >>> wrong = torch.rand(len(strings), generator=torch.Generator().manual_seed(0)) < 0.1
        >>> fit = learn_with_noise(as_dataset(strings, accepts(tomita(5), strings) ^ wrong, "01"))
        >>> compare(fit.dfa, tomita(5)).equal, fit.wrong == wrong.sum(), fit.log_odds > 10
        (True, tensor(True), True)
    """
    as_integer("largest", largest, 1)
    as_integer("rounds", rounds, 0)
    search = _Search(labeled_tree(data), largest, seed, stop)
    starts = [search.descended(search.merged(*options)) for options in product(_RATES, _THRESHOLDS) if not stop()]
    if initial is not None:
        starts.append(search.descended(moves_of(initial, search.tree.alphabet)[0]))
    for moves in starts:
        search.visit(search.shrunk(moves))
    number, stale = 0, 0
    while stale < rounds and not stop():
        number, stale = number + 1, stale + 1
        if search.visit(search.shrunk(search.descended(search.changed(search.best)))):
            stale = 0
        if report is not None and report(number, search.wrong(search.best), len(search.best)):
            break
    return search.fit(number)


def judge(dfa: DFA, data: SequenceDataset) -> NoisyFit:
    """Return the posterior of a given DFA, with its odds against automata that differ in one move or label.

    Args:
        dfa: Complete DFA over the symbols of the data.
        data: Labeled strings that begin with a start token.

    Example:
        >>> from sttau.automata import tomita
        >>> from sttau.data import load
        >>> fit = judge(tomita(4), load("tomita4", "train"))
        >>> fit.wrong, fit.log_odds > 10
        (0, True)
    """
    tree = labeled_tree(data)
    search = _Search(tree, len(dfa.states), 0)
    search.best, search.labels = moves_of(dfa.minify(), tree.alphabet)
    return search.fit(0)


class _Search:
    """The best automaton so far, and the posterior of all languages that were visited."""

    def __init__(self, tree: LabeledTree, largest: int, seed: int, stop: Callable[[], bool] = lambda: False) -> None:
        self.tree, self.largest, self.stop = tree, largest, stop
        self.source = np.random.default_rng([seed, 29])
        self.states = np.zeros(len(tree.parents), np.int32)
        self.best: _Moves = np.zeros((1, len(tree.alphabet)), np.int32)
        self.labels: NDArray[np.bool_] | None = None  # of a given automaton; else the majority in each state
        self.seen: dict[bytes, tuple[float, _Moves, NDArray[np.bool_]]] = {}
        self.visit(self.best)

    # errors and posterior

    def totals(self, moves: _Moves) -> NDArray[np.float64]:
        """Labels, (states, 2), that end in each state."""
        from sttau.automata.learning.search_kernel import count_errors  # importing Numba is slow

        tree, totals = self.tree, np.zeros((len(moves), 2))
        count_errors(tree.parents, tree.symbols, tree.counts, moves, self.states, totals)
        return totals

    def wrong(self, moves: _Moves) -> int:
        """Number of wrong labels."""
        totals = self.totals(moves)
        if self.labels is not None and moves is self.best:
            return int(totals[np.arange(len(moves)), 1 - self.labels.astype(int)].sum())
        return int(totals.min(-1).sum())

    def log_posterior(self, wrong: float, states: int) -> float:
        """Return the logarithm of the posterior of an automaton, up to a constant."""
        total, moves = self.tree.labels, states * len(self.tree.alphabet)
        likelihood = math.lgamma(wrong + 1) + math.lgamma(total - wrong + 1) - math.lgamma(total + 2) + math.log(2)
        prior = math.lgamma(states) - moves * math.log(states) - states * math.log(2) - math.log(states * (states + 1))
        return likelihood + prior

    def score(self, moves: _Moves) -> float:
        """Log-posterior with the majority label in each state."""
        return self.log_posterior(self.totals(moves).min(-1).sum(), len(moves))

    def visit(self, moves: _Moves) -> bool:
        """Note an automaton, and return whether it is the best so far."""
        if len(moves) > self.largest:
            return False
        totals = self.totals(moves)
        accepting = totals[:, 1] > totals[:, 0]
        value = self.log_posterior(totals.min(-1).sum(), len(moves))
        before = self.score(self.best)
        self.seen[moves.tobytes() + accepting.tobytes()] = (value, moves, accepting)
        if value > before:
            self.best = moves
            return True
        return False

    # steps of the search; all return minimal automata

    def merged(self, noise: float, threshold: float, part: float = 1.0) -> _Moves:
        """The automaton of state merging, from all labels or a random part of them."""
        from sttau.automata.learning.search_kernel import merge_states

        limit = max(int(_EXTRA * self.largest), 2)
        children, counts = self.tree.children.copy(), self.tree.counts.copy()
        if part < 1:
            counts *= self.source.random((len(counts), 1)) < part
        red, is_red = np.zeros(limit + 1, np.int32), np.zeros(len(counts), np.bool_)
        journal = np.zeros((4 * len(counts) + 16, 3))
        size = merge_states(children, counts, noise, threshold, limit, red, is_red, journal)
        number = {int(node): place for place, node in enumerate(red[:size])}
        moves = [[number.get(child, place) for child in children[node].tolist()] for node, place in number.items()]
        return np.array(moves, np.int32)

    def descended(self, moves: _Moves) -> _Moves:
        """Change single moves as long as that removes errors."""
        from sttau.automata.learning.search_kernel import descend

        tree, moves = self.tree, moves.copy()
        order = self.source.permutation(moves.size).astype(np.int32)
        descend(tree.parents, tree.symbols, tree.counts, moves, order, self.states, np.zeros((len(moves), 2)))
        return self.minimal(moves)

    def shrunk(self, moves: _Moves) -> _Moves:
        """Merge pairs of states as long as that makes the automaton more probable or no longer too large."""
        while len(moves) > 1 and not self.stop():
            merges = [_without(moves, *pair) for pair in combinations(range(len(moves)), 2)]
            best = self.minimal(max(merges, key=self.score))
            if len(moves) > self.largest:
                best = self.descended(best)
            if self.score(best) <= self.score(moves) and len(moves) <= self.largest:
                break
            moves = best
        return moves

    def changed(self, moves: _Moves) -> _Moves:
        """Redirect a few random moves, split states, or merge again with a part of the labels."""
        way = self.source.integers(3)
        if way == 0:
            noise, threshold = self.source.choice(_RATES), self.source.choice(_THRESHOLDS)
            return self.merged(float(noise), float(threshold), self.source.uniform(0.3, 1))
        moves = moves.copy()
        if way == 1:
            for _ in range(self.source.integers(1, 4)):
                if len(moves) < max(2, _EXTRA * self.largest):
                    moves = self.split(moves)
        for _ in range(self.source.integers(2 - way, 4)):
            place = self.source.integers(len(moves)), self.source.integers(moves.shape[1])
            moves[place] = self.source.integers(len(moves))
        return moves

    def split(self, moves: _Moves) -> _Moves:
        """Add a copy of a random state, which takes some of the moves into it."""
        state = self.source.integers(len(moves))
        into = (moves == state) & (self.source.random(moves.shape) < 0.5)
        moves = np.concatenate([moves, moves[[state]]])
        moves[:-1][into] = len(moves) - 1
        return moves

    def minimal(self, moves: _Moves) -> _Moves:
        """The minimal automaton with the majority label in each state, its states numbered breadth first."""
        totals = self.totals(moves)
        group = (totals[:, 1] > totals[:, 0]).astype(np.int64)
        while True:
            signature = np.column_stack([group, group[moves]])
            refined = np.unique(signature, axis=0, return_inverse=True)[1].reshape(-1)
            if refined.max() == group.max():
                break
            group = refined
        number = {int(group[0]): 0}
        rows = []
        for g in number_in_order(number, group, moves):
            rows.append([number[int(group[target])] for target in moves[np.flatnonzero(group == g)[0]]])
        return np.array(rows, np.int32)

    # the result

    def fit(self, rounds: int) -> NoisyFit:
        """Return the best automaton, with its odds."""
        totals = self.totals(self.best)
        accepting = totals[:, 1] > totals[:, 0] if self.labels is None else self.labels
        wrong, total = self.wrong(self.best), self.tree.labels
        value = self.log_posterior(wrong, len(self.best))
        rivals = self._neighbors(accepting)
        own = self.best.tobytes() + accepting.tobytes()
        rivals += [found for key, found in self.seen.items() if key != own]
        rival = max(rivals, key=lambda found: found[0], default=None)
        others = np.array([found[0] for found in rivals if found[0] > -np.inf])
        log_odds = value - float(np.logaddexp.reduce(others)) if len(others) else math.inf
        alphabet = self.tree.alphabet
        constant = self.log_posterior(self.tree.counts.sum(0).min(), 1)
        return NoisyFit(
            dfa=dfa_of(self.best, accepting, alphabet),
            noise=(wrong + 1) / (total + 2),
            wrong=wrong,
            labels=int(total),
            log_posterior=value,
            log_odds=log_odds,
            rival=None if rival is None else dfa_of(rival[1], rival[2], alphabet).minify(),
            gain=value - constant,
            rounds=rounds,
        )

    def _neighbors(self, accepting: NDArray[np.bool_]) -> list[tuple[float, _Moves, NDArray[np.bool_]]]:
        """Automata that differ from the best in one move or in the label of one state."""
        found = []
        totals = self.totals(self.best)
        wrong = totals[np.arange(len(self.best)), 1 - accepting.astype(int)]
        for state in range(len(self.best)):
            flipped = accepting.copy()
            flipped[state] ^= True
            errors = wrong.sum() - wrong[state] + totals[state, int(accepting[state])]
            found.append((self.log_posterior(errors, len(self.best)), self.best, flipped))
        for state, symbol in np.ndindex(self.best.shape):
            for target in range(len(self.best)):
                if target != self.best[state, symbol]:
                    moves = self.best.copy()
                    moves[state, symbol] = target
                    totals = self.totals(moves)
                    errors = totals[np.arange(len(moves)), 1 - accepting.astype(int)].sum()
                    found.append((self.log_posterior(errors, len(moves)), moves, accepting))
        return found


def number_in_order(number: dict[int, int], group: NDArray[np.int64], moves: _Moves) -> list[int]:
    """Number the groups of states that are reached from those numbered already, breadth first; return them in order."""
    queue = list(number)
    for g in queue:
        for target in moves[np.flatnonzero(group == g)[0]]:
            other = int(group[target])
            if other not in number:
                number[other] = len(number)
                queue.append(other)
    return queue


def _without(moves: _Moves, kept: int, removed: int) -> _Moves:
    """Moves into a state redirected to another; the state is left out."""
    moved = np.where(moves == removed, kept, moves)
    moved = np.delete(moved, removed, axis=0)
    return np.where(moved > removed, moved - 1, moved).astype(np.int32)
