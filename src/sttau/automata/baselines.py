"""Baselines: k-means and L* for extraction from networks, ALERGIA and spectral learning from data.

Extraction by clustering hidden states follows Wang et al. (2018), extraction by queries and counterexamples Weiss et
al. (2018), through AALpy's L* with the network as the system under learning. Both work with any recurrent network.
Stochastic languages are learned from data alone, by AALpy's ALERGIA, or by the spectral method of Balle et al. (2014).
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from automata.fa.dfa import DFA
from numpy.typing import NDArray
from torch import Tensor

from sttau.automata.exchange.aalpy import from_aalpy, import_aalpy
from sttau.data.dataset import SequenceDataset
from sttau.engine import Noise, fingerprint
from sttau.errors import AutomatonError
from sttau.inference import predict
from sttau.inference.chunks import in_eval_mode
from sttau.languages import PA
from sttau.layers import SAMPLED_MODES, LayerMode
from sttau.models import SequenceClassifier
from sttau.padding import valid_steps

_log = logging.getLogger(__name__)
_ROUNDS = 100  # largest number of rounds of L*, which does not end if the network's language is not regular


def extract_by_clustering(
    model: SequenceClassifier, data: SequenceDataset, clusters: int = 10, *, accept: int = 1, seed: int = 0
) -> DFA:
    """Extract a DFA from any recurrent network by clustering its hidden states.

    The hidden states after all prefixes of the strings are clustered by k-means. A cluster accepts if the network
    accepts most of the prefixes in it, and a move is that of most prefixes. A move without data is a self-loop.

    Args:
        model: Classifier with an embedding, over any unidirectional layer.
        data: Strings that begin with a start token; their labels are not used.
        clusters: Number of clusters.
        accept: Class that means "in the language".
        seed: Seed of k-means.

    Returns:
        The minimal DFA.

    Example:
        >>> from torch import nn
        >>> from sttau.data import load
        >>> model = SequenceClassifier(nn.GRU(4, 8), 2, nn.Embedding(3, 4))
        >>> len(extract_by_clustering(model, load("tomita1", "train"), clusters=4).states) <= 4
        True
    """
    return cluster_states(visited_states(model, data, accept=accept, seed=seed), clusters, seed=seed)


class VisitedStates(NamedTuple):
    """Hidden states of a network after the prefixes of strings.

    Attributes:
        hidden: (prefixes, d) hidden state after each prefix.
        accepted: (prefixes,) whether the network accepts it.
        alive: (strings, time) where a string has a prefix.
        inputs: (strings, time) tokens.
        vocabulary: Symbol of each token.
        start: Start token.
    """

    hidden: NDArray[np.float64]
    accepted: NDArray[np.bool_]
    alive: Tensor
    inputs: Tensor
    vocabulary: tuple[str, ...]
    start: str


def visited_states(
    model: SequenceClassifier, data: SequenceDataset, *, accept: int = 1, mode: LayerMode | None = None, seed: int = 0
) -> VisitedStates:
    """Return the hidden states of a network after all prefixes of strings.

    Args:
        model: Classifier with an embedding, over any unidirectional layer.
        data: Strings that begin with a start token.
        accept: Class that means "in the language".
        mode: Mode of the layer; its own if None.
        seed: Seed of the sampling noise.
    """
    vocabulary, start = symbols_of(data)
    inputs, rows = _distinct(data)
    lengths = data.lengths[rows]
    alive = valid_steps(inputs, lengths)
    noise = None
    if model.resolve_mode(mode) in SAMPLED_MODES:
        noise = Noise.of(fingerprint(inputs, lengths), 1, seed, 0)
    with torch.no_grad():
        hidden = in_eval_mode(model).hidden_states(inputs, lengths, noise=noise, mode=mode)[alive].double().numpy()
    labels = predict(model, inputs, lengths, seed=seed, mode=mode, per_step=True).label == accept
    return VisitedStates(hidden, labels[alive].numpy(), alive, inputs, vocabulary, start)


def cluster_states(visited: VisitedStates, clusters: int, *, seed: int = 0) -> DFA:
    """Return the minimal DFA whose states are clusters of hidden states, as :func:`extract_by_clustering` does."""
    from sklearn.cluster import KMeans  # importing scikit-learn is slow

    hidden, accepted, alive, inputs, vocabulary, start = visited
    if clusters > len(hidden):
        raise ValueError(f"clusters must be at most the {len(hidden)} prefixes in the data, got {clusters}")
    found = KMeans(clusters, n_init=3, random_state=seed).fit_predict(hidden)
    cluster = torch.full(inputs.shape, -1, dtype=torch.int64)
    cluster[alive] = torch.as_tensor(found, dtype=torch.int64)
    seen: dict[tuple[int, str], Counter[int]] = defaultdict(Counter)
    steps = alive[:, 1:]
    for source, token, target in zip(
        cluster[:, :-1][steps].tolist(), inputs[:, 1:][steps].tolist(), cluster[:, 1:][steps].tolist(), strict=True
    ):
        seen[source, vocabulary[token]][target] += 1
    symbols = [symbol for symbol in vocabulary if symbol != start]
    return DFA(
        states=set(range(clusters)),
        input_symbols=set(symbols),
        transitions={
            state: {
                symbol: seen[state, symbol].most_common(1)[0][0] if (state, symbol) in seen else state
                for symbol in symbols
            }
            for state in range(clusters)
        },
        initial_state=int(cluster[0, 0]),
        final_states={state for state in range(clusters) if accepted[found == state].mean() > 0.5},
    ).minify()


def extract_by_queries(
    model: SequenceClassifier,
    data: SequenceDataset,
    *,
    words: int = 1000,
    longest: int = 30,
    accept: int = 1,
    seed: int = 0,
) -> DFA:
    """Extract a DFA from any recurrent network by L*, with membership queries and a search for counterexamples.

    A hypothesis is tested on the strings of the data and on random words; a counterexample is truncated after the
    first symbol at which network and hypothesis differ. Where the network samples, every word has its own noise, named
    by the word, so a word is always answered alike. A warning is logged if the hypothesis still differs after the last
    round: the answers of the network are then no regular language that can be learned so.

    Requires AALpy: ``pip install 'sttau[automata]'``.

    Args:
        model: Classifier with an embedding, over any unidirectional layer.
        data: Strings that begin with a start token; their labels are not used.
        words: Number of random words, of 1 to ``longest`` symbols.
        longest: Length of the longest random words.
        accept: Class that means "in the language".
        seed: Seed of the random words.

    Example:
        >>> from sttau.automata import learn, tomita, compare
        >>> from sttau.data import load
        >>> train = load("tomita1", "train")
        >>> compare(extract_by_queries(learn(train).model, train), tomita(1))
        Equivalence(equal=True, counterexample=None)
    """
    vocabulary, start = symbols_of(data)
    symbols = [symbol for symbol in vocabulary if symbol != start]
    network = _Queries(model, vocabulary, vocabulary.index(start), accept)
    inputs, rows = _distinct(data)
    known = [
        tuple(vocabulary[token] for token in tokens[1:length])
        for tokens, length in zip(inputs.tolist(), data.lengths[rows].tolist(), strict=True)
    ]
    source = np.random.default_rng(seed)
    drawn = [tuple(source.choice(symbols, size=source.integers(1, longest + 1)).tolist()) for _ in range(words)]
    learned = _lstar(symbols, network, [word for word in known if word] + drawn)
    dfa = from_aalpy(learned)
    assert isinstance(dfa, DFA)
    return dfa.minify()


class _Queries:
    """Membership queries to a network."""

    def __init__(self, model: SequenceClassifier, vocabulary: tuple[str, ...], start: int, accept: int) -> None:
        self.model, self.start, self.accept = model, start, accept
        self.tokens = {symbol: token for token, symbol in enumerate(vocabulary)}
        self.known: dict[tuple[str, ...], bool] = {}

    def answers(self, words: Sequence[tuple[str, ...]]) -> list[list[bool]]:
        """Return for each word whether the network accepts its prefixes, from the empty one to the whole word."""
        if self.model.resolve_mode(None) not in SAMPLED_MODES:
            accepted = self._predict(words, per_step=True).tolist()
            return [row[: len(word) + 1] for row, word in zip(accepted, words, strict=True)]
        prefixes = {word[:end] for word in words for end in range(len(word) + 1)}  # each with the noise of its own
        new = sorted(prefixes - self.known.keys())
        if new:
            self.known.update(zip(new, self._predict(new, per_step=False).tolist(), strict=True))
        return [[self.known[word[:end]] for end in range(len(word) + 1)] for word in words]

    def _predict(self, words: Sequence[tuple[str, ...]], per_step: bool) -> Tensor:
        """Whether words are accepted, (words,), or (words, time) with their prefixes."""
        lengths = torch.tensor([len(word) + 1 for word in words])
        inputs = torch.full((len(words), int(lengths.max())), self.start, dtype=torch.int64)
        for row, word in enumerate(words):
            inputs[row, 1 : len(word) + 1] = torch.tensor([self.tokens[symbol] for symbol in word], dtype=torch.int64)
        accepted: Tensor = predict(self.model, inputs, lengths, per_step=per_step).label == self.accept
        return accepted


def _lstar(symbols: list[str], network: _Queries, words: list[tuple[str, ...]]) -> Any:
    """Run AALpy's L* with the network as the system under learning."""
    import_aalpy()
    from aalpy.base import SUL, Oracle
    from aalpy.learning_algs import run_Lstar

    class System(SUL):  # type: ignore[misc]
        def query(self, word: tuple[str, ...]) -> list[bool]:
            answers = network.answers([word])[0]
            return answers[1:] if word else answers

        def pre(self) -> None:
            pass

        def post(self) -> None:
            pass

        def step(self, letter: str) -> bool:
            raise NotImplementedError("queries are whole words")

    expected = network.answers(words)

    class Words(Oracle):  # type: ignore[misc]
        def find_cex(self, hypothesis: Any) -> tuple[str, ...] | None:
            shortest: tuple[str, ...] | None = None
            for word, answers in zip(words, expected, strict=True):
                hypothesis.reset_to_initial()
                for number, symbol in enumerate(word, 1):
                    if shortest is not None and number >= len(shortest):
                        break
                    if hypothesis.step(symbol) != answers[number]:
                        shortest = word[:number]
                        break
            return shortest

    system = System()
    oracle = Words(symbols, system)
    try:
        found = run_Lstar(symbols, system, oracle, "dfa", max_learning_rounds=_ROUNDS, print_level=0)
    except SystemExit as error:
        raise AutomatonError(
            "L* ended because the network answers a word differently each time; give its layer a mode without noise, "
            'such as "exact" or "deterministic"'
        ) from error
    if oracle.find_cex(found) is not None:
        _log.warning(
            "L* ended after %d rounds with %d states, and the network still differs from them: its answers are not "
            "regular, or need more states than this can find. Try extract_by_clustering, or a network trained longer",
            _ROUNDS,
            found.size,
        )
    return found


def learn_by_alergia(data: SequenceDataset, *, accept: int = 1, epsilon: float = 0.05) -> PA:
    """Learn a PA from labeled strings by ALERGIA, which merges prefixes with similar continuations. Requires AALpy.

    ALERGIA learns automata with outputs: here a Markov decision process without output for a symbol, and with the label
    as output for an end mark. Its moves are deterministic given the outputs, so the PA has deterministic moves, and all
    randomness is in the acceptance probabilities; it cannot represent hidden random moves, as in PA-1 and PA-2.

    Args:
        data: Labeled strings that begin with a start token.
        accept: Class that means "accepted".
        epsilon: Parameter of the Hoeffding tests; smaller values merge more states.

    Example:
        >>> from sttau.data import load
        >>> pa = learn_by_alergia(load("stochastic1", "train"))
        >>> pa.alphabet, bool((pa.matrices.max(-1).values == 1).all())
        (('0', '1'), True)
    """
    import_aalpy()
    from aalpy.learning_algs import run_Alergia

    vocabulary, start = symbols_of(data)
    symbols = tuple(symbol for symbol in vocabulary if symbol != start)
    traces = [
        ["", *((vocabulary[token], "") for token in tokens[1:length]), ("end", label == accept)]
        for tokens, length, label in zip(data.inputs.tolist(), data.lengths.tolist(), data.labels.tolist(), strict=True)
    ]
    machine = run_Alergia(traces, "mdp", eps=epsilon)
    states = [state for state in machine.states if state.output == ""]
    number = {id(state): place for place, state in enumerate(states)}
    matrices = torch.zeros(len(symbols), len(states), len(states), dtype=torch.float64)
    output = torch.full((len(states),), 0.5, dtype=torch.float64)  # states in which no string ends
    for place, state in enumerate(states):
        for x, symbol in enumerate(symbols):
            moves = state.transitions.get(symbol, [])
            matrices[x, place, number[id(moves[0][0])] if moves else place] = 1
        for target, probability in state.transitions.get("end", []):
            output[place] = probability if target.output else 1 - probability
    initial = torch.zeros(len(states), dtype=torch.float64)
    initial[number[id(machine.initial_state)]] = 1
    return PA(initial, matrices, output, symbols)


@dataclass(frozen=True)
class WeightedAutomaton:
    """f(x) = αᵀ A_{x_1} … A_{x_n} β with real weights, the result of the spectral method. f may leave [0, 1]."""

    initial: NDArray[np.float64]
    matrices: NDArray[np.float64]  # (symbols, rank, rank)
    output: NDArray[np.float64]
    alphabet: tuple[str, ...]

    def values(self, length: int) -> Tensor:
        """Return f, clipped to [0, 1], for all strings of exactly ``length`` symbols in lexicographic order."""
        rows = self.initial[None]
        for _ in range(length):
            rows = np.einsum("nk,akl->nal", rows, self.matrices).reshape(-1, len(self.initial))
        return torch.from_numpy(np.clip(rows @ self.output, 0, 1))


def learn_spectrally(data: SequenceDataset, rank: int, *, accept: int = 1, basis: int = 4) -> WeightedAutomaton:
    """Learn acceptance probabilities from labeled strings by a singular value decomposition (Balle et al., 2014).

    The Hankel matrix contains the share of accepted copies of the string uv, for prefixes u and suffixes v of 1 to
    ``basis`` symbols; all of them must be in the data.

    Args:
        data: Labeled strings: all strings up to length 2 · basis + 1.
        rank: Rank of the automaton.
        accept: Class that means "accepted".
        basis: Length of the longest prefix and suffix.

    Example:
        >>> from sttau.data import load
        >>> learn_spectrally(load("stochastic1", "train"), rank=2).matrices.shape
        (2, 2, 2)
    """
    vocabulary, start = symbols_of(data)
    symbols = tuple(symbol for symbol in vocabulary if symbol != start)
    share: dict[tuple[str, ...], list[bool]] = defaultdict(list)
    for tokens, length, label in zip(data.inputs.tolist(), data.lengths.tolist(), data.labels.tolist(), strict=True):
        share[tuple(vocabulary[token] for token in tokens[1:length])].append(label == accept)
    words: list[tuple[str, ...]] = [()]
    for word in words:
        if len(word) < basis:
            words += [(*word, symbol) for symbol in symbols]
    words = words[1:]
    if not 1 <= rank <= len(words):
        raise ValueError(f"rank must be from 1 to {len(words)}, the size of the basis, got {rank}")

    def block(middle: tuple[str, ...]) -> NDArray[np.float64]:
        """Shares of u · middle · v; 0.5 for missing strings (language 1 lacks five of the longest)."""
        return np.array([[np.mean(share.get(u + middle + v, [0, 1])) for v in words] for u in words])

    hankel = block(())
    right = np.linalg.svd(hankel)[2][:rank].T
    left = np.linalg.pinv(hankel @ right)
    return WeightedAutomaton(
        initial=np.array([np.mean(share.get(v, [0, 1])) for v in words]) @ right,
        matrices=np.stack([left @ block((symbol,)) @ right for symbol in symbols]),
        output=left @ np.array([np.mean(share.get(u, [0, 1])) for u in words]),
        alphabet=symbols,
    )


def _distinct(data: SequenceDataset) -> tuple[Tensor, Tensor]:
    """Distinct strings: tokens, and the first row of each."""
    marked = torch.cat([data.inputs.to(torch.int64), data.lengths[:, None]], dim=1)
    _, place = marked.unique(dim=0, return_inverse=True)
    rows = torch.full((int(place.max()) + 1,), len(data), dtype=torch.int64)
    rows = rows.scatter_reduce(0, place, torch.arange(len(data)), "amin")
    return data.inputs[rows].to(torch.int64), rows


def symbols_of(data: SequenceDataset) -> tuple[tuple[str, ...], str]:
    """Return the vocabulary of strings and their start token."""
    if data.vocabulary is None or data.inputs.dim() != 2:
        raise ValueError(f"{data.name} must be strings over a vocabulary")
    return data.vocabulary, data.vocabulary[int(data.inputs[0, 0])]


__all__ = ["WeightedAutomaton", "extract_by_clustering", "extract_by_queries", "learn_by_alergia", "learn_spectrally"]
