"""Weighted L*: a deterministic automaton with acceptance probabilities, extracted from any network by queries.

After Weiss et al. (2019), who extract deterministic probabilistic automata from language models. Here the network is a
classifier, and the weight of a string is the probability of a class. Two prefixes lead to the same state if the weights
of all their extensions by the known suffixes differ by at most a tolerance; a counterexample adds the suffix at which
the weight of the hypothesis departs from that of the network, as in the method of Rivest and Schapire (1993).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from sttau.automata.baselines import symbols_of
from sttau.checks import as_integer
from sttau.data.dataset import SequenceDataset
from sttau.inference import predict
from sttau.languages import PA
from sttau.models import SequenceClassifier

Word = tuple[str, ...]
Floats = npt.NDArray[np.float64]

_log = logging.getLogger(__name__)


def extract_by_weighted_queries(
    model: SequenceClassifier,
    data: SequenceDataset,
    *,
    tolerance: float = 0.05,
    max_states: int = 64,
    words: int = 1000,
    longest: int = 30,
    accept: int = 1,
    seed: int = 0,
) -> PA:
    """Extract a PA with deterministic moves from any recurrent network, by weighted L*.

    A hypothesis is tested on random words; a word whose weights differ by more than twice the tolerance is a
    counterexample. A warning is logged if one is left in the end: the weights of the network are then not those of a
    deterministic automaton of ``max_states`` states, up to the tolerance.

    Args:
        model: Classifier with an embedding, over any unidirectional layer.
        data: Strings that begin with a start token, whose vocabulary is used.
        tolerance: Largest difference of weights that are considered equal.
        max_states: Largest number of states.
        words: Number of random words, of 0 to ``longest`` symbols.
        longest: Length of the longest random words.
        accept: Class whose probability is the weight.
        seed: Seed of the random words.

    Example:
        >>> from sttau.automata import learn, tomita, compare
        >>> from sttau.data import load
        >>> train = load("tomita1", "train")
        >>> pa = extract_by_weighted_queries(learn(train).model, train)
        >>> pa.probability(["111", "1101"]).round().tolist()
        [1.0, 0.0]
    """
    if not 0 < tolerance < 0.5:
        raise ValueError(f"tolerance must be between 0 and 0.5, got {tolerance}")
    max_states, words = as_integer("max_states", max_states, 1), as_integer("words", words, 1)
    vocabulary, start = symbols_of(data)
    symbols = tuple(symbol for symbol in vocabulary if symbol != start)
    weights = _Weights(model, vocabulary, start, accept)
    source = np.random.default_rng(seed)
    tests = [tuple(source.choice(symbols, size=source.integers(0, longest + 1)).tolist()) for _ in range(words)]
    wanted = weights.of(tests)
    table = ObservationTable(weights, symbols, tolerance, max_states)
    gap = table.refine_on(tests, wanted)
    if gap > 2 * tolerance:
        _log.warning(
            "weighted L* ended with %d states and a largest difference of %.3f (tolerance %.3g): %s",
            len(table.states), gap, tolerance,
            "max_states is reached" if table.full else "no suffix separates the words any further",
        )  # fmt: skip
    return table.automaton()


class Weights(Protocol):
    """What an observation table asks: the weights of words."""

    def of(self, words: Sequence[Word]) -> Floats:
        """The weights of words."""


class _Weights:
    """The weights of words: probabilities of a class, each asked for once."""

    def __init__(self, model: SequenceClassifier, vocabulary: tuple[str, ...], start: str, accept: int) -> None:
        self._model, self._accept = model, accept
        self._tokens = {symbol: token for token, symbol in enumerate(vocabulary)}
        self._start, self._known = vocabulary.index(start), dict[Word, float]()

    def of(self, words: Sequence[Word]) -> Floats:
        """The weights of words."""
        new = sorted(set(words) - self._known.keys(), key=lambda word: (len(word), word))
        if new:
            lengths = torch.tensor([len(word) + 1 for word in new])
            inputs = torch.full((len(new), int(lengths.max())), self._start, dtype=torch.int64)
            for row, word in enumerate(new):
                inputs[row, 1 : len(word) + 1] = torch.tensor([self._tokens[symbol] for symbol in word])
            found = predict(self._model, inputs, lengths).mean[:, self._accept].tolist()
            self._known.update(zip(new, found, strict=True))
        return np.array([self._known[word] for word in words])


class ObservationTable:
    """Access words of the states, and the suffixes that tell them apart.

    Args:
        weights: Weights of words.
        symbols: Alphabet.
        tolerance: Largest difference of weights that are considered equal.
        max_states: Largest number of states.
    """

    def __init__(self, weights: Weights, symbols: tuple[str, ...], tolerance: float, max_states: int) -> None:
        self._weights, self._symbols, self._tolerance, self._most = weights, symbols, tolerance, max_states
        self.states: list[Word] = [()]
        self.suffixes: list[Word] = [()]
        self.moves: list[list[int]] = []
        self.full = False

    def refine_on(self, tests: Sequence[Word], wanted: Floats, stop: Callable[[], bool] = lambda: False) -> float:
        """Refine on the words whose weights differ most until none is off by more than twice the tolerance.

        Args:
            tests: Words.
            wanted: (words,) their weights.
            stop: Function called before every round; a true answer ends the search.

        Returns:
            The largest difference that is left.
        """
        while True:
            self.close()
            gap = np.abs(np.array([self.output[self.run(word)[-1]] for word in tests]) - wanted)
            if gap.max() <= 2 * self._tolerance or stop():
                break
            if not any(self.refine(tests[place]) for place in np.argsort(-gap, kind="stable")[:20].tolist()):
                break
        return float(gap.max())

    def close(self) -> None:
        """Add states until every move leads to one."""
        self.moves, place = [], 0
        rows = self._rows(self.states)
        while place < len(self.states):
            following = [(*self.states[place], symbol) for symbol in self._symbols]
            moves = []
            for word, row in zip(following, self._rows(following), strict=True):
                apart = np.abs(rows - row).max(axis=1)
                nearest = int(apart.argmin())
                if apart[nearest] > self._tolerance and len(self.states) < self._most:
                    nearest = len(self.states)
                    self.states.append(word)
                    rows = np.concatenate([rows, row[None]])
                elif apart[nearest] > self._tolerance:
                    self.full = True
                moves.append(nearest)
            self.moves.append(moves)
            place += 1
        self.output = rows[:, 0]

    def run(self, word: Word) -> list[int]:
        """The states that a word visits."""
        visited = [0]
        for symbol in word:
            visited.append(self.moves[visited[-1]][self._symbols.index(symbol)])
        return visited

    def refine(self, word: Word) -> bool:
        """Add the suffix of a counterexample at which the weights depart most; False where it is known."""
        visited = self.run(word)
        values = self._weights.of([(*self.states[state], *word[end:]) for end, state in enumerate(visited)])
        for place in np.argsort(-np.abs(np.diff(values))).tolist():
            suffix = word[place + 1 :]
            if suffix not in self.suffixes and not self.full:
                self.suffixes.append(suffix)
                return True
        return False

    def automaton(self) -> PA:
        """The hypothesis."""
        matrices = torch.zeros(len(self._symbols), len(self.states), len(self.states))
        for state, moves in enumerate(self.moves):
            for symbol, target in enumerate(moves):
                matrices[symbol, state, target] = 1
        initial = torch.zeros(len(self.states))
        initial[0] = 1
        return PA(initial, matrices, torch.from_numpy(self.output).clamp(0, 1), self._symbols)

    def _rows(self, words: Sequence[Word]) -> Floats:
        every = [(*word, *suffix) for word in words for suffix in self.suffixes]
        return self._weights.of(every).reshape(len(words), len(self.suffixes))


__all__ = ["extract_by_weighted_queries"]
