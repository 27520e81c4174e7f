"""Extraction of DFAs from any network: several methods, of which the most faithful one is chosen.

A candidate is judged by its fidelity: the share of held-out strings that it labels as the network does. Held-out
strings are random ones, twice as long as those from which candidates are made, and for each candidate strings from its
language and from the complement; none that was used for any candidate. Labels of the network are computed in batches,
once for all candidates. The cheapest candidates come first, and the first one without a difference ends the search.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import numpy as np
import torch
from automata.fa.dfa import DFA
from numpy.typing import NDArray

from sttau.automata.baselines import cluster_states, visited_states
from sttau.automata.extraction import ExtractedDFA, extract_dfa
from sttau.automata.learning.attempt import Deadline
from sttau.automata.learning.labeled_tree import dfa_of, moves_of
from sttau.automata.learning.state_merging import learn_by_merging
from sttau.automata.weighted_queries import ObservationTable, Word
from sttau.checks import as_integer
from sttau.data.dataset import SequenceDataset
from sttau.inference import predict
from sttau.languages import balanced_strings
from sttau.layers import LayerMode
from sttau.models import SequenceClassifier

#: Methods of extraction, the cheapest first.
Method = Literal["categorical", "relaxed mean", "merging", "L*", "k-means"]

_log = logging.getLogger(__name__)

_RANDOM = 1000  # random strings from which candidates are made, and as many held out
_SHORT = 256  # candidates see all strings up to the largest length that has at most so many
_EACH = 5  # held-out strings per candidate, length and label
_CLUSTERS = (5, 10, 20)
_CLUSTERED = 300  # strings whose hidden states are clustered
_BETWEEN = 0.25  # labels are 0 and 1: larger differences of weights separate states


@dataclass(frozen=True)
class Candidate:
    """A DFA of a network, and how faithful it is.

    Attributes:
        method: How it was extracted.
        dfa: Minimal DFA.
        fidelity: Share of the held-out strings that it labels as the network does.
        table: The extraction with the uncertainty of the moves, where a transition table was read.
    """

    method: str
    dfa: DFA
    fidelity: float
    table: ExtractedDFA | None = None


@dataclass(frozen=True)
class Extracted:
    """The most faithful DFA of a network. It is true if it labels all held-out strings as the network does.

    Attributes:
        chosen: The candidate with the largest fidelity; of equals the one with the fewest states.
        candidates: All candidates, in the order in which they were made.
        strings: Number of held-out strings.
        counterexample: A shortest held-out string that the network labels differently; None without one.
    """

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    strings: int
    counterexample: Word | None

    @property
    def automaton(self) -> DFA:
        """The chosen DFA."""
        return self.chosen.dfa

    def __bool__(self) -> bool:
        return self.counterexample is None

    def __str__(self) -> str:
        chosen = self.chosen
        text = (
            f"{chosen.method}: {len(chosen.dfa.states)} states, labels {_percent(chosen.fidelity)} of {self.strings} "
            "held-out strings as the network does"
        )
        others = [f"{other.method} {_percent(other.fidelity)}" for other in self.candidates if other is not chosen]
        return text + (f" ({', '.join(others)})" if others else "")


def extract(
    model: SequenceClassifier,
    vocabulary: Sequence[str] | None = None,
    *,
    methods: Iterable[Method] = get_args(Method),
    data: SequenceDataset | None = None,
    start: str = "^",
    accept: int = 1,
    mode: LayerMode | None = None,
    longest: int = 30,
    largest: int = 64,
    seconds: float | None = 60.0,
    seed: int = 0,
) -> Extracted:
    """Extract a DFA from any classifier over a finite alphabet, by the method that is most faithful to the network.

    The transition tables of :func:`extract_dfa` are read where the network has them. Others are state merging on
    strings with the network's labels, L* with the network as the one who answers, and k-means of hidden states with 5,
    10 and 20 clusters. A warning is logged if no candidate labels all held-out strings as the network does: its
    language is then not regular, needs more states, or depends on the sampling noise.

    Args:
        model: Classifier with an embedding, over any unidirectional layer.
        vocabulary: Symbol of each token id; the model's own if None.
        methods: Methods to use, a part of ``categorical``, ``relaxed mean``, ``merging``, ``L*`` and ``k-means``; they
            are tried in this order.
        data: Further strings from which candidates are made, such as the training strings; their labels are not used.
        start: Start token of every sequence; it is not part of the alphabet.
        accept: Class that means "in the language".
        mode: Mode of the network's predictions; its own if None.
        longest: Length of the longest held-out strings; candidates are made from strings of at most half of it.
        largest: Largest number of states.
        seconds: Time limit after which no further candidate is begun; None for no limit.
        seed: Seed of all randomness.

    Example:
        >>> from torch import nn
        >>> from sttau.automata import compare, tomita
        >>> from sttau.data import load
        >>> from sttau.training import fit
        >>> train = load("tomita1", "train")
        >>> _ = torch.manual_seed(0)
        >>> model = SequenceClassifier(nn.GRU(8, 16), 2, nn.Embedding(3, 8))
        >>> _ = fit(model, train, updates=300, learning_rate=0.01)
        >>> extracted = extract(model, train.vocabulary)
        >>> extracted.chosen.method, bool(extracted), bool(compare(extracted, tomita(1)))
        ('merging', True, True)
    """
    chosen = tuple(methods)
    if not chosen or not set(chosen) <= set(get_args(Method)):
        raise ValueError(f"methods must be some of {', '.join(get_args(Method))}, got {', '.join(map(str, chosen))}")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds must be positive, or None for no limit, got {seconds}")
    as_integer("longest", longest, 2)
    as_integer("largest", largest, 1)
    network = _Network(model, vocabulary, start, accept, mode, seed)
    deadline = Deadline(seconds)
    words = _words(network, longest // 2, data, seed)
    used = set(words)
    held_out = _HeldOut(network, _random_words(network.symbols, _RANDOM, longest, [seed, 1]), used, longest, seed)
    found: list[Candidate] = []
    for method in get_args(Method):
        if method not in chosen or (found and deadline.passed()):
            continue
        required = set(chosen) <= {"categorical", "relaxed mean"}  # the error then says why there is no table
        for name, dfa, table in _made_by(method, network, words, used, largest, deadline, seed, required):
            held_out.add_words_of(dfa)
            found.append(Candidate(name, dfa, held_out.fidelity(dfa), table))
            if found[-1].fidelity == 1 or deadline.passed():
                break
        if found and found[-1].fidelity == 1:
            break
    if not found:
        raise ValueError(
            f"none of the methods {', '.join(chosen)} found a DFA of at most {largest} states; use all methods, or "
            "raise largest"
        )
    found = [Candidate(one.method, one.dfa, held_out.fidelity(one.dfa), one.table) for one in found]
    best = min(found, key=lambda one: (-one.fidelity, len(one.dfa.states)))  # the first of equals
    result = Extracted(best, tuple(found), len(held_out.words()), held_out.counterexample(best.dfa))
    if not result:
        _log.warning("no DFA that was extracted has the network's labels on all held-out strings: %s", result)
    return result


class _Network:
    """The labels of a network: each asked for once, in batches."""

    def __init__(
        self,
        model: SequenceClassifier,
        vocabulary: Sequence[str] | None,
        start: str,
        accept: int,
        mode: LayerMode | None,
        seed: int,
    ) -> None:
        names = model.vocabulary if vocabulary is None else tuple(vocabulary)
        if names is None:
            raise ValueError("vocabulary is needed: the model has none (call model.set_metadata(data))")
        if start not in names or len(names) < 2:
            raise ValueError(f"start must be in the vocabulary {names}, with other symbols, got {start!r}")
        if not 0 <= accept < model.num_classes:
            raise ValueError(f"accept must be a class from 0 to {model.num_classes - 1}, got {accept}")
        self.model, self.vocabulary, self.accept, self.mode, self.seed = model, names, accept, mode, seed
        self.start = start
        self.symbols = tuple(symbol for symbol in names if symbol != start)
        self.known: dict[Word, bool] = {}
        self._tokens = {symbol: token for token, symbol in enumerate(names)}

    def of(self, words: Sequence[Word]) -> NDArray[np.float64]:
        """Whether words are accepted, as 0 or 1."""
        new = sorted(set(words) - self.known.keys(), key=lambda word: (len(word), word))
        if new:
            inputs, lengths = self._encoded(new)
            found = predict(self.model, inputs, lengths, seed=self.seed, mode=self.mode).label == self.accept
            self.known.update(zip(new, found.tolist(), strict=True))
        return np.array([self.known[word] for word in words], dtype=np.float64)

    def data(self, words: Sequence[Word]) -> SequenceDataset:
        """Words with the network's labels."""
        inputs, lengths = self._encoded(words)
        return SequenceDataset(
            name="strings of the network",
            split="train",
            inputs=inputs,
            lengths=lengths,
            labels=torch.from_numpy(self.of(words)).to(torch.int64),
            class_names=("reject", "accept"),
            provenance="Labeled by a network",
            vocabulary=self.vocabulary,
        )

    def _encoded(self, words: Sequence[Word]) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = torch.tensor([len(word) + 1 for word in words])
        inputs = torch.full((len(words), int(lengths.max())), self._tokens[self.start], dtype=torch.int64)
        for row, word in enumerate(words):
            inputs[row, 1 : len(word) + 1] = torch.tensor([self._tokens[symbol] for symbol in word])
        return inputs, lengths


class _Questions:
    """The labels of a network, with a record of the words that were asked for."""

    def __init__(self, network: _Network, used: set[Word]) -> None:
        self._network, self._used = network, used

    def of(self, words: Sequence[Word]) -> NDArray[np.float64]:
        """Whether words are accepted, as 0 or 1."""
        self._used.update(words)
        return self._network.of(words)


class _HeldOut:
    """Strings that were used for no candidate."""

    def __init__(self, network: _Network, words: Sequence[Word], used: set[Word], longest: int, seed: int) -> None:
        self._network, self._longest, self._seed = network, longest, seed
        self._words = dict.fromkeys(words)
        self._used = used

    def words(self) -> list[Word]:
        """The strings that are left."""
        return [word for word in self._words if word not in self._used]

    def add_words_of(self, dfa: DFA) -> None:
        """Add strings from the language of a candidate and from its complement."""
        symbols = self._network.symbols
        alphabet = tuple(chr(0xE000 + number) for number in range(len(symbols)))  # strings need single characters
        renamed = dfa_of(*moves_of(dfa, symbols), alphabet)
        drawn, _ = balanced_strings(renamed, range(self._longest + 1), _EACH, seed=self._seed)
        self._words.update(dict.fromkeys(tuple(symbols[ord(letter) - 0xE000] for letter in word) for word in drawn))

    def fidelity(self, dfa: DFA) -> float:
        """Share of the strings that a candidate labels as the network does."""
        words = self.words()
        return float((self._labels(dfa, words) == self._network.of(words)).mean())

    def counterexample(self, dfa: DFA) -> Word | None:
        """A shortest string that a candidate labels differently."""
        words = self.words()
        differs = np.flatnonzero(self._labels(dfa, words) != self._network.of(words)).tolist()
        return min((words[place] for place in differs), key=lambda word: (len(word), word), default=None)

    def _labels(self, dfa: DFA, words: Sequence[Word]) -> NDArray[np.float64]:
        moves, accepting = moves_of(dfa, self._network.symbols)
        place = {symbol: number for number, symbol in enumerate(self._network.symbols)}
        table, labels = moves.tolist(), []
        for word in words:
            state = 0
            for symbol in word:
                state = table[state][place[symbol]]
            labels.append(accepting[state])
        return np.array(labels, dtype=np.float64)


def _made_by(
    method: Method,
    network: _Network,
    words: list[Word],
    used: set[Word],
    largest: int,
    deadline: Deadline,
    seed: int,
    required: bool,
) -> Iterator[tuple[str, DFA, ExtractedDFA | None]]:
    """The DFAs of one method, with their names; none where it does not apply."""
    if method in ("categorical", "relaxed mean"):
        table = _read_table(method, network, seed, required)
        if table is not None:
            yield method, table.dfa, table
    elif method == "merging":
        data = network.data(words)
        orders: tuple[Literal["evidence", "canonical"], ...] = ("evidence", "canonical")
        for order in orders:
            merged = learn_by_merging(data, order, largest=largest)
            if merged is not None:
                yield f"merging ({order})" if order != "evidence" else "merging", merged.minify(), None
    elif method == "L*":
        asked = ObservationTable(_Questions(network, used), network.symbols, _BETWEEN, largest)
        asked.refine_on(words, network.of(words), deadline.passed)
        yield method, _labeled(asked, network.symbols), None
    else:
        visited = visited_states(
            network.model, network.data(words[:_CLUSTERED]), accept=network.accept, mode=network.mode, seed=seed
        )
        for clusters in _CLUSTERS:
            if clusters <= min(largest, len(visited.hidden)):
                yield f"{method} ({clusters})", cluster_states(visited, clusters, seed=seed), None


def _read_table(
    method: Literal["categorical", "relaxed mean"], network: _Network, seed: int, required: bool
) -> ExtractedDFA | None:
    """The DFA of a transition table; None if the network has none."""
    try:
        return extract_dfa(
            network.model, network.vocabulary, start=network.start, accept=network.accept, table=method, seed=seed
        )
    except (AttributeError, TypeError, ValueError) as error:  # LSTMs, ensembles, several layers, heads that read cells
        if required:
            raise
        _log.debug("the network has no transition table: %s", error)
        return None


def _labeled(table: ObservationTable, symbols: tuple[str, ...]) -> DFA:
    """The DFA of an observation table."""
    return dfa_of(np.array(table.moves, dtype=np.int32), table.output > 0.5, symbols).minify()


def _words(network: _Network, longest: int, data: SequenceDataset | None, seed: int) -> list[Word]:
    """Strings from which candidates are made: random ones, all short ones, and those of the data; each once."""
    words: dict[Word, None] = {}
    if data is not None:
        for tokens, length in zip(data.inputs.tolist(), data.lengths.tolist(), strict=True):
            words[tuple(network.vocabulary[token] for token in tokens[1:length])] = None
    short, total = 0, 1
    while short < longest and total + len(network.symbols) ** (short + 1) <= _SHORT:
        short += 1
        total += len(network.symbols) ** short
    for length in range(short + 1):
        words.update(dict.fromkeys(product(network.symbols, repeat=length)))
    words.update(dict.fromkeys(_random_words(network.symbols, _RANDOM, longest, [seed, 0])))
    drawn = list(words)
    return [drawn[place] for place in np.random.default_rng([seed, 2]).permutation(len(drawn))]


def _random_words(symbols: tuple[str, ...], count: int, longest: int, seed: Sequence[int]) -> list[Word]:
    """Random strings, of lengths that are uniform up to the longest."""
    source = np.random.default_rng(seed)
    lengths = source.integers(0, longest + 1, size=count)
    drawn = source.integers(0, len(symbols), size=(count, longest))
    return [tuple(symbols[place] for place in row[:length]) for row, length in zip(drawn, lengths, strict=True)]


def _percent(share: float) -> str:
    """A share in percent, never rounded up to 100 %."""
    return "100 %" if share == 1 else f"{min(100 * share, 99.9):.1f} %"
