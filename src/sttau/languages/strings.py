"""Labeled strings of a regular language: acceptance of many strings, balanced samples, mutations."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sttau.languages.alphabets import encode_strings, single_characters
from sttau.languages.pa import PA

if TYPE_CHECKING:
    from automata.fa.dfa import DFA


class HasDFA(Protocol):
    """An object that stands for a DFA, such as the result of an extraction."""

    @property
    def automaton(self) -> Any:
        """The DFA, or a PA whose probabilities are 0 and 1."""


def as_dfa(value: DFA | PA | HasDFA) -> DFA:
    """Return the DFA that a value is or stands for; an error for a PA with other probabilities than 0 and 1.

    Example:
        >>> from sttau.languages import tomita
        >>> as_dfa(PA.from_dfa(tomita(1))).accepts_input("11")
        True
    """
    found: Any = getattr(value, "automaton", value)
    return found.to_dfa() if isinstance(found, PA) else found


def accepts(dfa: DFA | PA | HasDFA, strings: Sequence[str]) -> Tensor:
    """Return whether a DFA accepts each of many strings, all read at once: (strings,) booleans.

    Example:
        >>> from sttau.languages import tomita
        >>> accepts(tomita(1), ["", "1111", "110"])
        tensor([ True,  True, False])
    """
    dfa = as_dfa(dfa)
    alphabet = single_characters(dfa.input_symbols)
    moves, final = transition_table(dfa, alphabet)
    ids, lengths = encode_strings(strings, alphabet)
    state = np.zeros(len(ids), dtype=np.int64)
    for step, symbols in enumerate(ids.T.numpy()):
        state = np.where(step < lengths.numpy(), moves[state, symbols], state)
    return torch.from_numpy(final[state])


def balanced_strings(
    dfa: DFA | PA | HasDFA, lengths: Iterable[int], count: int, *, seed: int
) -> tuple[list[str], Tensor]:
    """Draw strings of each length uniformly: ``count`` from the language and as many from its complement.

    If one of the two has no string of a length, only the other one is sampled. Strings are drawn with replacement.
    Strings are counted in logarithms, so lengths of thousands of symbols work.

    Args:
        dfa: Automaton of the language.
        lengths: Lengths of the strings.
        count: Number of strings per length and class.
        seed: Seed of the draws.

    Returns:
        The strings and whether each is in the language, (strings,) booleans.

    Example:
        >>> from sttau.languages import tomita
        >>> balanced_strings(tomita(1), [3], 2, seed=0)
        (['100', '101', '111', '111'], tensor([False, False,  True,  True]))
    """
    dfa = as_dfa(dfa)
    alphabet = single_characters(dfa.input_symbols)
    moves, final = transition_table(dfa, alphabet)
    lengths = list(lengths)
    if not lengths or min(lengths) < 0:
        raise ValueError(f"lengths must contain at least one length and none that is negative, got {lengths}")
    counts = {inside: _log_counts(moves, final == inside, max(lengths)) for inside in (False, True)}
    strings: list[str] = []
    labels: list[bool] = []
    for length in lengths:
        for inside in (False, True):
            if counts[inside][length, 0] == -np.inf:
                continue
            source = np.random.default_rng([seed, length, inside])
            rows = _draw(moves, counts[inside], length, count, source)
            strings += ["".join(row) for row in np.array(alphabet)[rows].tolist()]
            labels += [inside] * count
    return strings, torch.tensor(labels, dtype=torch.bool)


def mutations(dfa: DFA | PA | HasDFA, strings: Sequence[str], *, seed: int) -> tuple[list[str], Tensor]:
    """Replace one symbol of each string, at a random position; return the strings and their true labels.

    The empty string has no symbol to replace and is left out.

    Args:
        dfa: Automaton of the language.
        strings: Strings to change.
        seed: Seed of the positions and symbols.

    Example:
        >>> from sttau.languages import tomita
        >>> mutations(tomita(1), ["1111", "11"], seed=0)
        (['0111', '10'], tensor([False, False]))
    """
    dfa = as_dfa(dfa)
    alphabet = single_characters(dfa.input_symbols)
    if len(alphabet) < 2:
        raise ValueError("mutations need an alphabet of at least two symbols")
    source = random.Random(f"mutations/{seed}")
    changed = []
    for string in filter(None, strings):
        place = source.randrange(len(string))
        other = source.choice([symbol for symbol in alphabet if symbol != string[place]])
        changed.append(string[:place] + other + string[place + 1 :])
    return changed, accepts(dfa, changed)


def transition_table(dfa: DFA, alphabet: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return next states, (states, symbols), and which states accept.

    State 0 is the initial one; states are numbered in breadth-first order. Missing moves lead to a dead state.
    """
    pa = PA.from_dfa(dfa)
    assert pa.alphabet == alphabet
    return pa.matrices.argmax(-1).T.contiguous().numpy(), pa.output.bool().numpy()


def _log_counts(moves: NDArray[np.int64], targets: NDArray[np.bool_], length: int) -> NDArray[np.float64]:
    """(length + 1, states): logarithm of the number of strings of n symbols from a state to a target state."""
    counts = np.full((length + 1, len(moves)), -np.inf)
    counts[0, targets] = 0
    for n in range(length):
        counts[n + 1] = np.logaddexp.reduce(counts[n][moves], axis=1)
    return counts


def _draw(
    moves: NDArray[np.int64], counts: NDArray[np.float64], length: int, count: int, source: np.random.Generator
) -> NDArray[Any]:
    """Positions of symbols, (count, length): uniform among the strings that ``counts`` counts."""
    state = np.zeros(count, dtype=np.int64)
    rows = np.zeros((count, length), dtype=np.int64)
    for step in range(length):
        after = counts[length - step - 1][moves[state]]
        shares = np.exp(after - after.max(axis=1, keepdims=True)).cumsum(axis=1)
        draws = source.random(count) * shares[:, -1]
        rows[:, step] = (draws[:, None] >= shares).sum(axis=1)
        state = moves[state, rows[:, step]]
    return rows
