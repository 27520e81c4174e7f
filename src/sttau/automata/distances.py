"""Distances between automata over all strings up to a length, and over all strings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sttau.automata.equivalence import aligned
from sttau.automata.value import AutomatonLike
from sttau.checks import check_rate
from sttau.languages import PA, Strings

_MOST_STRINGS = 1 << 26  # limit of an exhaustive comparison
_BLOCK = 1 << 16  # strings per block
_DIRECT = 40  # largest number of states of both automata for which the linear system is solved directly


@dataclass(frozen=True)
class Distance:
    """Distance of two automata on all strings up to a length, where p and q are their acceptance probabilities.

    Attributes:
        length: Length of the longest strings.
        strings: Number of strings.
        sup: Largest |p − q|.
        worst: String with the largest |p − q|.
        l1: Sum of |p − q| over all strings.
        sup_by_length: Largest |p − q| among the strings of each length, from 0.
    """

    length: int
    strings: int
    sup: float
    worst: str
    l1: float
    sup_by_length: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of |p − q|."""
        return self.l1 / self.strings


def distance(first: AutomatonLike, second: AutomatonLike, *, length: int) -> Distance:
    """Compare two automata on every string of at most ``length`` symbols, the empty one included.

    Example:
        >>> from sttau.automata import stochastic
        >>> found = distance(stochastic(1), stochastic(2), length=15)
        >>> found.strings, round(found.sup, 4), found.worst
        (65535, 0.67, '01')
    """
    a, b = aligned(first, second)
    strings = _count(a, length)
    sups, l1, worst = [0.0] * (length + 1), 0.0, ""
    for depth, p, q, offset in _all_strings(a, b, length):
        gaps = (p - q).abs()
        l1 += float(gaps.sum())
        top = int(gaps.argmax())
        if float(gaps[top]) > max(sups):
            worst = _string(a, depth, offset + top)
        sups[depth] = max(sups[depth], float(gaps[top]))
    return Distance(length, strings, max(sups), worst, l1, tuple(sups))


def bernoulli_kl(
    first: AutomatonLike,
    second: AutomatonLike,
    *,
    length: int | None = None,
    strings: Strings | None = None,
    weights: Tensor | None = None,
) -> float:
    """Mean of KL(p ‖ q) in bits, where p and q are the two automata's probabilities that a string is accepted.

    It is infinite if the second assigns probability 0 to an outcome that the first does not.

    Args:
        first: Reference automaton.
        second: Automaton that is compared with the reference.
        length: Length of the longest strings, for the mean over all strings up to it.
        strings: Strings, for the mean over these instead.
        weights: (strings,) weight of each of ``strings``; uniform if None.

    Example:
        >>> from sttau.automata import stochastic
        >>> round(bernoulli_kl(stochastic(1), stochastic(2), length=10), 4)
        0.4656
    """
    if (length is None) == (strings is None):
        raise ValueError("pass either length or strings")
    a, b = aligned(first, second)
    if strings is not None:
        if isinstance(strings, Tensor):
            raise TypeError(
                "strings must be strings or lists of symbols; positions depend on the order of an automaton's alphabet"
            )
        divergence = _kl(a.probability(strings), b.probability(strings))
        if weights is None:
            return float(divergence.mean())
        shares = torch.as_tensor(weights, dtype=torch.float64, device=divergence.device)
        if shares.shape != divergence.shape or bool((shares < 0).any()) or not float(shares.sum()) > 0:
            raise ValueError(f"weights must be {len(divergence)} floats, none negative and not all zero")
        used = shares > 0
        return float((shares[used] * divergence[used]).sum() / shares.sum())
    if weights is not None:
        raise ValueError("weights can only be given with strings")
    assert length is not None
    count = _count(a, length)
    return sum(float(_kl(p, q).sum()) for _, p, q, _ in _all_strings(a, b, length)) / count


def rms_distance(first: AutomatonLike, second: AutomatonLike, *, continuation: float = 0.9) -> float:
    """Root mean squared difference of probabilities over *all* strings, of every length.

    A string continues with probability c = ``continuation`` after each symbol, and symbols are uniform, so the mean
    length is c / (1 − c). With D_a = diag(A_a, B_a), v = (π_A, −π_B) and w = (f_A, f_B),

        d² = (1 − c) (v ⊗ v) [I − (c / |Σ|) Σ_a D_a ⊗ D_a]⁻¹ (w ⊗ w).

    Large terms cancel in it, so results below 1e-7 are rounding errors.

    Args:
        first: Automaton.
        second: Automaton over the same symbols.
        continuation: Probability c that a string continues.

    Example:
        >>> from sttau.automata import stochastic
        >>> round(rms_distance(stochastic(1), stochastic(2)), 4)
        0.3347
    """
    check_rate("continuation", continuation)
    a, b = aligned(first, second)
    n, m = a.num_states, a.num_states + b.num_states
    steps = a.matrices.new_zeros(len(a.alphabet), m, m)
    steps[:, :n, :n], steps[:, n:, n:] = a.matrices, b.matrices
    v, w = torch.cat([a.initial, -b.initial]), torch.cat([a.output, b.output])
    share, ends = continuation / len(a.alphabet), torch.outer(w, w)
    if m <= _DIRECT:
        system = torch.eye(m * m, dtype=w.dtype, device=w.device)
        for step in steps:
            system -= share * torch.kron(step, step)
        solution = torch.linalg.solve(system, ends.flatten()).view(m, m)
    else:  # the same as a Neumann series; no entry of D X Dᵀ exceeds the largest of X, so the rest shrinks by c
        solution, rounds = ends, 0 if continuation == 0 else math.ceil(-40 / math.log(continuation))
        for _ in range(rounds):
            solution = ends + share * (steps @ solution @ steps.mT).sum(0)
    return math.sqrt(max(0.0, (1 - continuation) * float(v @ solution @ v)))


def _count(pa: PA, length: int) -> int:
    """Number of strings up to a length."""
    if length < 0:
        raise ValueError(f"length must not be negative, got {length}")
    strings = int(sum(len(pa.alphabet) ** n for n in range(length + 1)))
    if strings > _MOST_STRINGS:
        raise ValueError(
            f"there are {strings:,} strings of at most {length} symbols, more than the limit of "
            f"{_MOST_STRINGS:,}; choose a smaller length, or use rms_distance, which covers all strings"
        )
    return strings


def _string(pa: PA, length: int, number: int) -> str:
    """The string of this length at this position in lexicographic order."""
    symbols = []
    for _ in range(length):
        number, symbol = divmod(number, len(pa.alphabet))
        symbols.append(pa.alphabet[symbol])
    return "".join(reversed(symbols))


def _all_strings(a: PA, b: PA, length: int) -> Iterator[tuple[int, Tensor, Tensor, int]]:
    """Probabilities of all strings up to a length: blocks of (length, p, q, position of the block's first string)."""
    pending = [(0, a.initial[None], b.initial[None], 0)]
    while pending:
        depth, states, others, offset = pending.pop()
        yield depth, states @ a.output, others @ b.output, offset
        if depth == length:
            continue
        size = max(1, _BLOCK // len(a.alphabet))
        for begin in range(0, len(states), size):  # depth first if a level is too large for memory
            block = (
                depth + 1,
                _extend(states[begin : begin + size], a),
                _extend(others[begin : begin + size], b),
                (offset + begin) * len(a.alphabet),
            )
            pending.append(block)


def _extend(states: Tensor, pa: PA) -> Tensor:
    """State distributions (n, k) after one more symbol, for each symbol: (n · symbols, k)."""
    return torch.einsum("ni,aij->naj", states, pa.matrices).flatten(0, 1)


def _kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p ‖ q) of Bernoulli distributions, in bits."""
    p, q = p.clamp(0, 1), q.clamp(0, 1)

    def part(x: Tensor, y: Tensor) -> Tensor:
        return torch.where(x > 0, x * (x.log2() - y.log2()), torch.zeros_like(x))

    return part(p, q) + part(1 - p, 1 - q)
