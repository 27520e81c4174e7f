"""Maximum likelihood of generative automata by expectation maximization (Baum and Welch), exact in every step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sttau.automata.generative.automaton import GenerativeAutomaton, Word, encode
from sttau.automata.starts import run_starts
from sttau.checks import as_integer

Kind = Literal["automaton", "hmm"]

_SHORT = 30  # iterations of each start, of which the best continue
_KEPT = 2
_PSEUDO = 1e-3  # count added to every move, so that no string of the alphabet has probability 0


@dataclass(frozen=True)
class LearnedGenerative:
    """A generative automaton learned from strings.

    Attributes:
        automaton: The automaton.
        log_likelihood: Sum of the log-probabilities of the training strings, in nats.
        held_out: Log-likelihood per held-out string for each number of states that was tried; empty if it was given.
    """

    automaton: GenerativeAutomaton
    log_likelihood: float
    held_out: dict[int, float]


def learn_generative(
    strings: Sequence[Word],
    num_states: int | None = None,
    *,
    kind: Kind = "automaton",
    alphabet: Sequence[str] | None = None,
    largest: int = 8,
    attempts: int = 8,
    iterations: int = 500,
    tolerance: float = 1e-6,
    workers: int = 1,
    seed: int = 0,
) -> LearnedGenerative:
    """Learn p(string) from unlabeled strings, by the exact likelihood of all paths through the states.

    Several random starts make a few iterations of expectation maximization; the best continue until the log-likelihood
    per string grows by less than the tolerance.

    Args:
        strings: Strings, or sequences of symbols.
        num_states: Number of states. If None, 1, 2, … are tried on four fifths of the strings until the likelihood of
            the others has not grown twice in a row.
        kind: ``automaton`` if the next state may depend on the symbol, ``hmm`` if symbol and next state are independent
            given the state.
        alphabet: Symbols; those that occur if None.
        largest: Largest number of states that is tried.
        attempts: Number of random starts.
        iterations: Largest number of iterations.
        tolerance: Gain per string, in nats, below which an attempt ends.
        workers: Number of processes that make attempts at the same time; the result does not depend on it.
        seed: Seed of the starts and of the held-out strings.

    Example:
        >>> truth = GenerativeAutomaton.from_hmm(
        ...     [1, 0], [[0.1, 0.9], [0.8, 0.2]], [[0.9, 0.1], [0.2, 0.8]], [0.1, 0.2], "ab"
        ... )
        >>> learned = learn_generative(truth.sample(500, seed=0), 2, kind="hmm", attempts=2)
        >>> test = truth.sample(500, seed=1)
        >>> learned.automaton.perplexity(test) / truth.perplexity(test) < 1.02
        True
    """
    if kind not in ("automaton", "hmm"):
        raise ValueError(f"kind must be 'automaton' or 'hmm', got {kind!r}")
    if not len(strings):
        raise ValueError("strings are empty: an automaton is learned from at least one string")
    for name, number in (
        ("attempts", attempts),
        ("iterations", iterations),
        ("largest", largest),
        ("workers", workers),
    ):
        as_integer(name, number, 1)
    words = [tuple(string) for string in strings]
    symbols = tuple(sorted({symbol for word in words for symbol in word}) if alphabet is None else alphabet)
    if not symbols:
        raise ValueError("all strings are empty: pass the alphabet")
    held_out: dict[int, float] = {}
    if num_states is None:
        order = np.random.default_rng([seed, 5]).permutation(len(words))
        cut = max(1, len(words) // 5)
        kept, other = [words[place] for place in order[cut:]] or words, [words[place] for place in order[:cut]]
        for size in range(1, largest + 1):
            found = _fit(_Data(kept, symbols), size, kind, attempts, iterations, tolerance, workers, seed)[0]
            held_out[size] = float(found.log_probability(other).mean())
            if size > 2 and max(held_out[size], held_out[size - 1]) <= held_out[size - 2]:
                break
        num_states = max(held_out, key=lambda size: held_out[size])
    states = as_integer("num_states", num_states, 1)
    automaton, value = _fit(_Data(words, symbols), states, kind, attempts, iterations, tolerance, workers, seed)
    return LearnedGenerative(automaton, value, held_out)


class _Data:
    """Distinct strings as arrays, with their counts."""

    def __init__(self, words: list[tuple[str, ...]], alphabet: tuple[str, ...]) -> None:
        counts = Counter(words)
        distinct = sorted(counts, key=len, reverse=True)  # so that strings that are not over are the first rows
        self.alphabet = alphabet
        self.ids, self.lengths = encode(distinct, alphabet)
        self.weights = np.array([counts[word] for word in distinct], dtype=np.float64)


def _fit(
    data: _Data,
    states: int,
    kind: Kind,
    attempts: int,
    iterations: int,
    tolerance: float,
    workers: int,
    seed: int,
) -> tuple[GenerativeAutomaton, float]:
    """The automaton with the largest likelihood of several starts."""
    starts = []
    for attempt in range(attempts if states > 1 else 1):
        source = np.random.default_rng([seed, states, attempt])
        start = _normalized(
            source.dirichlet(np.ones(states)),
            source.gamma(1.0, size=(len(data.alphabet), states, states)),
            source.gamma(1.0, size=states),
            kind,
            data.alphabet,
        )
        starts.append((data, start, kind, min(_SHORT, iterations), tolerance))
    candidates = sorted(run_starts(_iterate, starts, workers), key=lambda found: -found[1])[:_KEPT]
    found = run_starts(_iterate, [(data, start, kind, iterations, tolerance) for start, _ in candidates], workers)
    return max(found, key=lambda pair: pair[1])


def _iterate(
    data: _Data, automaton: GenerativeAutomaton, kind: Kind, iterations: int, tolerance: float
) -> tuple[GenerativeAutomaton, float]:
    """Iterations of expectation maximization: the automaton, and the log-likelihood before the last one."""
    before = -math.inf
    for _ in range(iterations):
        initial, moves, ends, value = expected_counts(data.ids, data.lengths, data.weights, automaton)
        if value - before < tolerance * data.weights.sum():
            break
        before = value
        automaton = _normalized(initial, moves, ends, kind, data.alphabet)
    return automaton, before


def expected_counts(
    ids: NDArray[np.int64], lengths: NDArray[np.int64], weights: NDArray[np.float64], automaton: GenerativeAutomaton
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    """Return the expected numbers of first states, moves and ends, given the strings, and the log-likelihood.

    Args:
        ids: (strings, time) positions in the alphabet, longest strings first.
        lengths: (strings,) lengths.
        weights: (strings,) numbers of copies.
        automaton: Automaton.
    """
    k, steps = automaton.num_states, ids.shape[1]
    alive = [int((lengths > step).sum()) for step in range(steps)]  # rows that have a symbol at this step
    forward = np.zeros((steps + 1, len(ids), k))
    scales = np.ones((steps + 1, len(ids)))
    forward[0] = automaton.initial
    for step in range(steps):
        n = alive[step]
        moved = np.einsum("ni,nij->nj", forward[step, :n], automaton.moves[ids[:n, step]])
        scales[step + 1, :n] = moved.sum(-1)
        forward[step + 1, :n] = moved / scales[step + 1, :n, None]
    last = forward[lengths, np.arange(len(ids))]
    final = last @ automaton.ends
    value = float(weights @ (np.log(scales).sum(0) + np.log(final)))
    ends = ((weights / final)[:, None] * last * automaton.ends).sum(0)
    backward = np.tile(automaton.ends, (len(ids), 1)) / final[:, None]
    moves = np.zeros_like(automaton.moves)
    for step in range(steps - 1, -1, -1):
        n = alive[step]
        scaled = backward[:n] / scales[step + 1, :n, None]
        outer = (weights[:n, None] * forward[step, :n])[:, :, None] * scaled[:, None]
        for symbol in range(len(moves)):
            here = ids[:n, step] == symbol
            moves[symbol] += outer[here].sum(0)
        backward[:n] = np.einsum("nij,nj->ni", automaton.moves[ids[:n, step]], scaled)
    initial = (weights[:, None] * backward * automaton.initial).sum(0)
    return initial, moves * automaton.moves, ends, value


def _normalized(
    initial: NDArray[np.float64],
    moves: NDArray[np.float64],
    ends: NDArray[np.float64],
    kind: Kind,
    alphabet: tuple[str, ...],
) -> GenerativeAutomaton:
    """The automaton that maximizes the likelihood of counts."""
    moves, ends = moves + _PSEUDO / moves[0].size, ends + _PSEUDO
    if kind == "hmm":  # symbol and next state are independent given the state
        total = moves.sum((0, 2))
        moves = np.einsum("ai,ij,i->aij", moves.sum(2), moves.sum(0), 1 / total)
    rows = moves.sum((0, 2)) + ends
    return GenerativeAutomaton(initial / initial.sum(), moves / rows[:, None], ends / rows, alphabet)
