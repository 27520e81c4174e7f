"""Automata that generate strings: in each step a state emits a symbol and moves, or ends the string."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from automata.fa.dfa import DFA
from numpy.typing import NDArray

Word = Sequence[str]
_Floats = NDArray[np.float64]

_SLACK = 1e-6  # accepted error of sums of probabilities


@dataclass(frozen=True, eq=False)
class GenerativeAutomaton:
    """A probabilistic automaton that generates strings: p(x) = π A_{x₁} ⋯ A_{x_T} e, and all p(x) sum to 1.

    An HMM with an end is the case A_a[i, j] = (1 − e_i) · emission[i, a] · transition[i, j]; a PDFA has at most one
    target for each state and symbol.

    Attributes:
        initial: (k,) distribution of the first state.
        moves: (symbols, k, k) probability that state i emits the symbol and moves to state j.
        ends: (k,) probability that the string ends in each state; with the moves of a state it sums to 1.
        alphabet: Symbols.

    Example:
        >>> coin = GenerativeAutomaton(np.ones(1), np.full((2, 1, 1), 0.25), np.full(1, 0.5), ("a", "b"))
        >>> np.exp(coin.log_probability(["", "a", "ab"]))
        array([0.5    , 0.125  , 0.03125])
    """

    initial: _Floats
    moves: _Floats
    ends: _Floats
    alphabet: tuple[str, ...]

    def __post_init__(self) -> None:
        k, symbols = len(self.initial), len(self.alphabet)
        for name, shape in (("initial", (k,)), ("moves", (symbols, k, k)), ("ends", (k,))):
            value = np.asarray(getattr(self, name), dtype=np.float64)
            if value.shape != shape or not np.isfinite(value).all() or (value < -_SLACK).any():
                raise ValueError(f"{name} must be probabilities of shape {shape}, got shape {value.shape}")
            object.__setattr__(self, name, value.clip(0))
        rows = self.moves.sum((0, 2)) + self.ends
        if abs(self.initial.sum() - 1) > _SLACK or np.abs(rows - 1).max() > _SLACK:
            raise ValueError(f"initial, and moves with ends of each state, must sum to 1; the states sum to {rows}")

    @property
    def num_states(self) -> int:
        """Number of states."""
        return len(self.initial)

    @staticmethod
    def from_hmm(
        initial: _Floats, transition: _Floats, emission: _Floats, ends: _Floats, alphabet: Sequence[str]
    ) -> GenerativeAutomaton:
        """Return a hidden Markov model: a state ends the string, or emits a symbol and then moves.

        Args:
            initial: (k,) distribution of the first state.
            transition: (k, k) distribution of the next state.
            emission: (k, symbols) distribution of the emitted symbol.
            ends: (k,) probability that the string ends before a further symbol is emitted.
            alphabet: Symbols.
        """
        moves = np.einsum("i,ia,ij->aij", 1 - np.asarray(ends), np.asarray(emission), np.asarray(transition))
        return GenerativeAutomaton(np.asarray(initial), moves, np.asarray(ends), tuple(alphabet))

    def log_probability(self, strings: Sequence[Word]) -> _Floats:
        """Return the natural logarithm of the probability of each string, (strings,); −∞ where it is 0."""
        ids, lengths = encode(strings, self.alphabet)
        forward = np.tile(self.initial, (len(ids), 1))
        total = np.zeros(len(ids))
        for step in range(ids.shape[1] + 1):
            here = lengths == step
            with np.errstate(divide="ignore"):
                total[here] += np.log(forward[here] @ self.ends)
            if step == ids.shape[1]:
                break
            alive = lengths > step
            moved = np.einsum("ni,nij->nj", forward[alive], self.moves[ids[alive, step]])
            scale = moved.sum(-1)
            with np.errstate(divide="ignore"):
                total[alive] += np.log(scale)
            forward[alive] = moved / np.where(scale > 0, scale, 1)[:, None]
        return total

    def next_symbol(self, prefix: Word) -> dict[str | None, float]:
        """Return the probability of each next symbol after a prefix, and that of the end under None.

        Example:
            >>> coin = GenerativeAutomaton(np.ones(1), np.full((1, 1, 1), 0.75), np.full(1, 0.25), ("a",))
            >>> coin.next_symbol("aa")
            {'a': 0.75, None: 0.25}
        """
        ids, lengths = encode([prefix], self.alphabet)
        state = self.initial
        for symbol in ids[0, : lengths[0]]:
            state = state @ self.moves[symbol]
            if not state.sum():
                raise ValueError(f"prefix {''.join(prefix)!r} has probability 0")
            state = state / state.sum()
        after = np.einsum("i,aij->a", state, self.moves)
        return {**dict(zip(self.alphabet, after.tolist(), strict=True)), None: float(state @ self.ends)}

    def sample(self, count: int, *, seed: int, longest: int = 10_000) -> list[tuple[str, ...]]:
        """Draw strings, as tuples of symbols.

        Args:
            count: Number of strings.
            seed: Seed of the draws.
            longest: Length at which an error is raised, since a state may have no end.
        """
        source = np.random.default_rng(seed)
        k = self.num_states
        table = np.concatenate([self.moves.transpose(1, 0, 2).reshape(k, -1), self.ends[:, None]], 1).cumsum(-1)
        strings: list[list[str]] = [[] for _ in range(count)]
        state = source.choice(k, size=count, p=self.initial / self.initial.sum())
        alive = np.arange(count)
        for _ in range(longest + 1):
            drawn = (source.random(len(alive))[:, None] * table[state[alive], -1:] >= table[state[alive]]).sum(-1)
            going = drawn < table.shape[1] - 1
            alive, drawn = alive[going], drawn[going]
            if not len(alive):
                return [tuple(string) for string in strings]
            for place, symbol in zip(alive.tolist(), (drawn // k).tolist(), strict=True):
                strings[place].append(self.alphabet[symbol])
            state[alive] = drawn % k
        raise ValueError(f"{len(alive)} of {count} strings have more than {longest} symbols; raise longest")

    def perplexity(self, strings: Sequence[Word]) -> float:
        """Return the perplexity per symbol, counting the end of each string as one: exp(−mean log-probability)."""
        return math.exp(-float(self.log_probability(strings).sum()) / sum(len(string) + 1 for string in strings))

    def is_deterministic(self, tolerance: float = 1e-9) -> bool:
        """Whether it is a PDFA: one initial state, and at most one target for each state and symbol."""
        return int((self.initial > tolerance).sum()) == 1 and int((self.moves > tolerance).sum(-1).max()) <= 1

    def support(self) -> DFA:
        """Return the minimal DFA of the strings that have a positive probability."""
        from automata.fa.nfa import NFA

        k = self.num_states
        moves: dict[int, dict[str, set[int]]] = {state: {} for state in range(k + 1)}
        for a, i, j in np.argwhere(self.moves > 0).tolist():
            moves[i].setdefault(self.alphabet[a], set()).add(j)
        moves[k][""] = set(np.flatnonzero(self.initial > 0).tolist())
        final = set(np.flatnonzero(self.ends > 0).tolist())
        symbols = set(self.alphabet)
        nfa = NFA(states=set(moves), input_symbols=symbols, transitions=moves, initial_state=k, final_states=final)
        return DFA.from_nfa(nfa).minify()


def encode(strings: Sequence[Word], alphabet: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return strings as positions in the alphabet, (strings, time) and zero beyond the end, and their lengths."""
    from sttau.languages.alphabets import encode_strings

    if isinstance(strings, str):
        raise TypeError(f"strings must be a list of strings; for a single one write [{strings!r}]")
    ids, lengths = encode_strings([list(string) for string in strings], alphabet)
    return ids.numpy(), lengths.numpy()
