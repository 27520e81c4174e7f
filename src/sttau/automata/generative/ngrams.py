"""n-grams with interpolated smoothing, the baseline of generative automata."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sttau.automata.generative.automaton import Word
from sttau.checks import as_integer


class NGram:
    """Next-symbol model of the last n − 1 symbols, interpolated with shorter contexts by Witten and Bell's weights.

    p(a | context) = (count(context, a) + d · p(a | shorter context)) / (count(context) + d), where d is the number of
    distinct symbols seen after the context. The shortest distribution is uniform. The end is a symbol.

    Args:
        strings: Training strings.
        order: n, the length of the n-grams.
        alphabet: Symbols; those that occur if None.

    Example:
        >>> model = NGram(["ab", "ab", "aab"], order=2)
        >>> bool(model.log_probability(["ab"])[0] > model.log_probability(["ba"])[0])
        True
    """

    def __init__(self, strings: Sequence[Word], order: int = 3, alphabet: Sequence[str] | None = None) -> None:
        self.order = as_integer("order", order, 1)
        self.alphabet = tuple(sorted({s for word in strings for s in word}) if alphabet is None else alphabet)
        self.counts: dict[tuple[str | None, ...], Counter[str | None]] = defaultdict(Counter)
        for word in strings:
            sequence: list[str | None] = [None] * (order - 1) + list(word) + [None]
            for place in range(order - 1, len(sequence)):
                for width in range(order):
                    self.counts[tuple(sequence[place - width : place])][sequence[place]] += 1

    def probability(self, context: tuple[str | None, ...], symbol: str | None) -> float:
        """Return the probability of a symbol, or of the end (None), after the last symbols, None before the first."""
        value = 1 / (len(self.alphabet) + 1)
        for width in range(len(context) + 1):
            seen = self.counts.get(context[len(context) - width :])
            if seen:
                value = (seen[symbol] + len(seen) * value) / (seen.total() + len(seen))
        return value

    def log_probability(self, strings: Sequence[Word]) -> NDArray[np.float64]:
        """Return the natural logarithm of the probability of each string, (strings,)."""
        return np.array([self._log(tuple(word)) for word in strings])

    def _log(self, word: tuple[str, ...]) -> float:
        sequence: list[str | None] = [None] * (self.order - 1) + list(word) + [None]
        places = range(self.order - 1, len(sequence))
        return sum(math.log(self.probability(tuple(sequence[p - self.order + 1 : p]), sequence[p])) for p in places)

    def perplexity(self, strings: Sequence[Word]) -> float:
        """Return the perplexity per symbol, counting the end of each string as one."""
        return math.exp(-float(self.log_probability(strings).sum()) / sum(len(string) + 1 for string in strings))
