"""Spectral learning of the distribution of strings (Hsu, Kakade and Zhang, 2009; Balle et al., 2014).

The Hankel matrix H has the probability of the string uv for prefixes u and suffixes v. If the strings come from an
automaton of k states, its rank is at most k, and from the k largest singular vectors V the automaton follows in closed
form: α = h_λ V, A_a = (H V)⁺ H_a V and β = (H V)⁺ h_λ', where H_a has the probabilities of uav. There is no search and
no local maximum, but the weights are real numbers: the values of some strings may be negative, and need not sum to 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sttau.automata.generative.automaton import Word, encode
from sttau.checks import as_integer

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SpectralModel:
    """f(x) = αᵀ A_{x₁} ⋯ A_{x_T} β with real weights, close to the probability of the string x.

    Attributes:
        initial: (k,) α.
        moves: (symbols, k, k) A.
        ends: (k,) β.
        alphabet: Symbols.
    """

    initial: _Floats
    moves: _Floats
    ends: _Floats
    alphabet: tuple[str, ...]

    @property
    def num_states(self) -> int:
        """The rank."""
        return len(self.initial)

    def values(self, strings: Sequence[Word]) -> _Floats:
        """Return f of each string, (strings,), which may be negative."""
        ids, lengths = encode(strings, self.alphabet)
        rows = np.tile(self.initial, (len(ids), 1))
        found = np.zeros(len(ids))
        for step in range(ids.shape[1] + 1):
            here = lengths == step
            found[here] = rows[here] @ self.ends
            if step < ids.shape[1]:
                rows = np.einsum("ni,nij->nj", rows, self.moves[ids[:, step]])
        return found

    def log_probability(self, strings: Sequence[Word]) -> _Floats:
        """Return the natural logarithm of the probability of each string, (strings,), under a proper distribution.

        f gives the probability of each next symbol and of the end after a prefix; negative ones count as 0, and they
        are divided by their sum, so that the probabilities of all strings sum to 1. Where f itself is a distribution,
        it is this one.
        """
        ids, lengths = encode(strings, self.alphabet)
        after = np.linalg.solve(np.eye(self.num_states) - self.moves.sum(0), self.ends)  # of all continuations together
        outcomes = np.concatenate([(self.moves @ after).T, self.ends[:, None]], axis=1)
        rows = np.tile(self.initial, (len(ids), 1))
        found = np.zeros(len(ids))
        for step in range(ids.shape[1] + 1):
            chances = (rows @ outcomes).clip(0)
            total = chances.sum(-1, keepdims=True)
            chances = np.where(total > 0, chances / np.where(total > 0, total, 1), 1 / chances.shape[1])
            taken = np.where(lengths > step, ids[:, min(step, ids.shape[1] - 1)] if ids.shape[1] else 0, -1)
            here = lengths >= step
            chance = chances[np.arange(len(ids)), taken]
            found[here] += np.log(chance, out=np.full_like(chance, -np.inf), where=chance > 0)[here]
            if step < ids.shape[1]:
                rows = np.einsum("ni,nij->nj", rows, self.moves[ids[:, step]])
                rows /= np.maximum(np.abs(rows).max(-1, keepdims=True), 1e-300)
        return found

    def total(self) -> float:
        """Return the sum of f over all strings, αᵀ (I − Σ_a A_a)⁻¹ β, if it converges; infinity otherwise."""
        step = self.moves.sum(0)
        if np.abs(np.linalg.eigvals(step)).max() >= 1:
            return float("inf")
        return float(self.initial @ np.linalg.solve(np.eye(self.num_states) - step, self.ends))


def learn_spectrally(
    strings: Sequence[Word], rank: int, *, alphabet: Sequence[str] | None = None, basis: int = 100
) -> SpectralModel:
    """Learn the distribution of strings by a singular value decomposition of their Hankel matrix.

    Args:
        strings: Strings, or sequences of symbols.
        rank: Rank of the model, the number of states of the automaton that generates the strings.
        alphabet: Symbols; those that occur if None.
        basis: Number of prefixes and of suffixes: the most frequent ones, and the empty string.

    Example:
        >>> from sttau.automata.generative import GenerativeAutomaton
        >>> truth = GenerativeAutomaton.from_hmm(
        ...     [1, 0], [[0.1, 0.9], [0.8, 0.2]], [[0.9, 0.1], [0.2, 0.8]], [0.4, 0.5], "ab"
        ... )
        >>> model = learn_spectrally(truth.sample(20_000, seed=0), rank=2)
        >>> bool(abs(np.exp(truth.log_probability(["a", "ab"])) - model.values(["a", "ab"])).max() < 0.01)
        True
    """
    if not len(strings):
        raise ValueError("strings are empty: a distribution is learned from at least one string")
    rank, basis = as_integer("rank", rank, 1), as_integer("basis", basis, 1)
    counts = Counter(tuple(string) for string in strings)
    symbols = tuple(sorted({symbol for word in counts for symbol in word}) if alphabet is None else alphabet)
    total = sum(counts.values())
    prefixes = _most_frequent(counts, basis, suffixes=False)
    suffixes = _most_frequent(counts, basis, suffixes=True)
    if rank > min(len(prefixes), len(suffixes)):
        raise ValueError(f"rank must be at most {min(len(prefixes), len(suffixes))}, the size of the basis, got {rank}")

    def block(middle: tuple[str, ...]) -> _Floats:
        """Shares of u · middle · v."""
        return np.array([[counts.get(u + middle + v, 0) for v in suffixes] for u in prefixes]) / total

    hankel = block(())
    right = np.linalg.svd(hankel, full_matrices=False)[2][:rank].T
    left = np.linalg.pinv(hankel @ right)
    return SpectralModel(
        initial=np.array([counts.get(v, 0) for v in suffixes]) / total @ right,
        moves=np.stack([left @ block((symbol,)) @ right for symbol in symbols]),
        ends=left @ np.array([counts.get(u, 0) for u in prefixes]) / total,
        alphabet=symbols,
    )


def _most_frequent(counts: Counter[tuple[str, ...]], size: int, *, suffixes: bool) -> list[tuple[str, ...]]:
    """The empty string, and the prefixes or suffixes that occur most often; of equals the shorter ones."""
    found: Counter[tuple[str, ...]] = Counter()
    for word, copies in counts.items():
        for cut in range(len(word) + 1):
            found[word[cut:] if suffixes else word[:cut]] += copies
    found.pop((), None)
    return [(), *sorted(found, key=lambda part: (-found[part], len(part), part))[: size - 1]]
