"""Are two automata the same, and if not, how far apart? Proofs and counter-examples; distances over all strings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from automata.fa.dfa import DFA
from torch import Tensor

from sttau.automata.pa import PA, Strings

_MOST_STRINGS = 1 << 26  # that an exhaustive comparison reads
_BLOCK = 1 << 16  # strings whose laws are held at once
_DIRECT = 40  # states of two automata together up to which a system of their squares is solved


@dataclass(frozen=True)
class Equivalence:
    """The answer: true, or false with a shortest string on which the two differ; ``str()`` says why.

    Attributes:
        equal: whether the automata are the same.
        counterexample: a shortest string that tells them apart; its symbols are joined.
        reason: what was looked at, in words.
    """

    equal: bool
    counterexample: str | None
    reason: str = field(default="", repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        return f"equal: {self.reason}" if self.equal else f"different on “{self.counterexample}”: {self.reason}"


def compare(first: DFA | PA, second: DFA | PA, *, tolerance: float = 1e-9) -> Equivalence:
    """Decide whether two automata give every string the same answer.

    **DFAs** are explored together (Hopcroft and Karp, 1971). No string leads anywhere else, so a positive answer holds
    for all strings of all lengths, and a negative one has the shortest string, the first in order among equals.

    **PAs** (a DFA beside a PA is read as one) are compared by Tzeng's algorithm (SIAM J. Comput. 21, 1992). The pairs
    of laws that strings lead to span a space of fewer than k + k' dimensions, and two PAs that agree on a basis of it
    agree on all strings. The basis is taken from strings in order of length, so few have to be tried.

    Args:
        first: a DFA or a PA.
        second: over the same symbols, in any order.
        tolerance: PAs only. Probabilities this close count as equal, and a pair of laws this close to the span of those
            before (Euclidean) as a combination of them. So "different" is certain, and "equal" is a proof up to this
            rounding.

    Example:
        >>> from sttau.automata import stochastic, tomita
        >>> compare(tomita(1), tomita(1))
        Equivalence(equal=True, counterexample=None)
        >>> print(compare(tomita(4), tomita(7)))
        different on “000”: the first accepts it: no, the second: yes
        >>> print(compare(stochastic(1), stochastic(2)))
        different on “0”: probabilities 0.1 and 0.3
        >>> print(compare(stochastic(2), stochastic(2)))
        equal: the probabilities of 3 strings agree to 1e-09, and their laws span those of all strings
    """
    if isinstance(first, DFA) and isinstance(second, DFA):
        return _compare_dfas(first, second)
    return _compare_pas(*_pair(first, second), tolerance)


def _compare_dfas(first: DFA, second: DFA) -> Equivalence:
    """Hopcroft and Karp (1971): states that one string leads to are merged; merged states must answer alike.

    Strings are tried in order of length, then of the alphabet. A pair whose states are merged already is passed over:
    whatever tells the two apart also tells apart two neighbors in the chain of pairs that merged them, which earlier
    strings led to. So the first counter-example found is the first of all.
    """
    _check_symbols(first.input_symbols, second.input_symbols)
    symbols = sorted(first.input_symbols)
    merged: dict[
        tuple[int, Any], tuple[int, Any]
    ] = {}  # of a state of the first (0) or second (1): one it is merged with

    def find(state: tuple[int, Any]) -> tuple[int, Any]:
        while state in merged:
            merged[state] = state = merged.get(merged[state], merged[state])
        return state

    start: tuple[Any, Any] = (first.initial_state, second.initial_state)
    merged[0, start[0]] = (1, start[1])
    queue: list[tuple[tuple[Any, Any], tuple[str, ...]]] = [(start, ())]
    for (a, b), word in queue:
        answers = a in first.final_states, b in second.final_states
        if answers[0] != answers[1]:
            said = ["yes" if answer else "no" for answer in answers]
            return Equivalence(False, "".join(word), f"the first accepts it: {said[0]}, the second: {said[1]}")
        for symbol in symbols:  # a move that is missing leads to None, from where there is no way back
            reached = (
                None if a is None else first.transitions[a].get(symbol),
                None if b is None else second.transitions[b].get(symbol),
            )
            one, other = find((0, reached[0])), find((1, reached[1]))
            if one != other:
                merged[one] = other
                queue.append((reached, (*word, symbol)))
    return Equivalence(True, None, f"{len(queue)} pairs of states, to which all strings lead back, answer alike")


def _compare_pas(first: PA, second: PA, tolerance: float) -> Equivalence:
    start = torch.cat([first.initial, second.initial])
    k = first.num_states
    basis = start.new_zeros(0, len(start))  # orthonormal rows
    queue: list[tuple[tuple[int, ...], Tensor]] = [((), start)]
    kept = 0
    for word, laws in queue:
        p, q = float(laws[:k] @ first.output), float(laws[k:] @ second.output)
        if abs(p - q) > tolerance:
            string = "".join(first.alphabet[symbol] for symbol in word)
            return Equivalence(False, string, f"probabilities {p:.6g} and {q:.6g}")
        rest = laws
        for _ in range(2):  # once more, for what rounding left
            rest = rest - basis.T @ (basis @ rest)
        length = float(rest.norm())
        if length <= tolerance:
            continue
        basis = torch.cat([basis, (rest / length)[None]])
        kept += 1
        for symbol in range(len(first.alphabet)):
            moved = torch.cat([laws[:k] @ first.matrices[symbol], laws[k:] @ second.matrices[symbol]])
            queue.append(((*word, symbol), moved))
    return Equivalence(
        True,
        None,
        f"the probabilities of {kept} strings agree to {tolerance:g}, and their laws span those of all strings",
    )


@dataclass(frozen=True)
class Distance:
    """How far two automata are apart on all strings up to a length.

    Attributes:
        length: of the longest strings.
        strings: how many there are.
        sup: the largest |p − q|.
        worst: a string where it is reached.
        l1: the sum of |p − q| over all strings.
        sup_by_length: the largest |p − q| among the strings of each length, from 0.
    """

    length: int
    strings: int
    sup: float
    worst: str
    l1: float
    sup_by_length: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of |p − q|."""
        return self.l1 / self.strings


def distance(first: DFA | PA, second: DFA | PA, *, length: int) -> Distance:
    """Compare two automata on every string of at most ``length`` symbols, the empty one included.

    Example:
        >>> from sttau.automata import stochastic
        >>> found = distance(stochastic(1), stochastic(2), length=15)
        >>> found.strings, round(found.sup, 4), found.worst
        (65535, 0.67, '01')
    """
    a, b = _pair(first, second)
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
    first: DFA | PA,
    second: DFA | PA,
    *,
    length: int | None = None,
    strings: Strings | None = None,
    weights: Tensor | None = None,
) -> float:
    """Mean of KL(p ‖ q) in bits, where p and q are the two automata's probabilities that a string is accepted.

    It is infinite where the second is sure and the first does not agree.

    Args:
        first: the truth.
        second: what is measured against it.
        length: the mean is over all strings of at most so many symbols; or
        strings: over these.
        weights: (strings,) of each of ``strings``; all the same without it.

    Example:
        >>> from sttau.automata import stochastic
        >>> round(bernoulli_kl(stochastic(1), stochastic(2), length=10), 4)
        0.4656
    """
    if (length is None) == (strings is None):
        raise ValueError("give either length or strings")
    a, b = _pair(first, second)
    if strings is not None:
        if isinstance(strings, Tensor):
            raise TypeError(
                "strings must be strings or lists of symbols; positions depend on an automaton's order of them"
            )
        divergence = _kl(a.probability(strings), b.probability(strings))
        if weights is None:
            return float(divergence.mean())
        shares = torch.as_tensor(weights, dtype=torch.float64, device=divergence.device)
        if shares.shape != divergence.shape or bool((shares < 0).any()) or not float(shares.sum()) > 0:
            raise ValueError(f"weights must be {len(divergence)} numbers, none negative and not all zero")
        used = shares > 0
        return float((shares[used] * divergence[used]).sum() / shares.sum())
    if weights is not None:
        raise ValueError("weights belong to strings")
    assert length is not None
    count = _count(a, length)
    return sum(float(_kl(p, q).sum()) for _, p, q, _ in _all_strings(a, b, length)) / count


def rms_distance(first: DFA | PA, second: DFA | PA, *, continuation: float = 0.9) -> float:
    """Root of the mean squared difference of probabilities over *all* strings, of every length.

    A string goes on with probability c = ``continuation`` after each symbol, and symbols are uniform, so the mean
    length is c / (1 − c). With D_a = diag(A_a, B_a), v = (π_A, −π_B) and w = (f_A, f_B),

        d² = (1 − c) (v ⊗ v) [I − (c / |Σ|) Σ_a D_a ⊗ D_a]⁻¹ (w ⊗ w).

    Differences of large terms cancel in it: results below 1e-7 are rounding.

    Example:
        >>> from sttau.automata import stochastic
        >>> round(rms_distance(stochastic(1), stochastic(2)), 4)
        0.3347
    """
    if not 0 <= continuation < 1:
        raise ValueError(f"continuation must be in [0, 1), got {continuation}")
    a, b = _pair(first, second)
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
    else:  # the same as a series; no entry of D X Dᵀ exceeds the largest of X, so what is left shrinks by c each time
        solution, rounds = ends, 0 if continuation == 0 else math.ceil(-40 / math.log(continuation))
        for _ in range(rounds):
            solution = ends + share * (steps @ solution @ steps.mT).sum(0)
    return math.sqrt(max(0.0, (1 - continuation) * float(v @ solution @ v)))


def _pair(first: DFA | PA, second: DFA | PA) -> tuple[PA, PA]:
    """Both as PAs over the same alphabet in the same order."""
    a, b = (PA.from_dfa(one) if isinstance(one, DFA) else one for one in (first, second))
    _check_symbols(a.alphabet, b.alphabet)
    if a.alphabet != b.alphabet:
        order = [b.alphabet.index(symbol) for symbol in a.alphabet]
        b = PA(b.initial, b.matrices[order], b.output, a.alphabet)
    return a, b.to(a.output.device)


def _check_symbols(first: Any, second: Any) -> None:
    if set(first) != set(second):
        raise ValueError(f"the automata read different symbols: {sorted(first)} and {sorted(second)}")


def _count(pa: PA, length: int) -> int:
    """How many strings there are up to a length."""
    if length < 0:
        raise ValueError(f"length must not be negative, got {length}")
    strings = int(sum(len(pa.alphabet) ** n for n in range(length + 1)))
    if strings > _MOST_STRINGS:
        raise ValueError(
            f"there are {strings:,} strings of at most {length} symbols, more than the {_MOST_STRINGS:,} that are "
            "tried; choose a smaller length, or rms_distance, which is over all strings"
        )
    return strings


def _string(pa: PA, length: int, number: int) -> str:
    """The string of this length that stands at this place in the order of the alphabet."""
    symbols = []
    for _ in range(length):
        number, symbol = divmod(number, len(pa.alphabet))
        symbols.append(pa.alphabet[symbol])
    return "".join(reversed(symbols))


def _all_strings(a: PA, b: PA, length: int) -> Iterator[tuple[int, Tensor, Tensor, int]]:
    """Probabilities of all strings to a length: blocks of (length, p, q, place of the block's first string)."""
    pending = [(0, a.initial[None], b.initial[None], 0)]
    while pending:
        depth, laws, others, offset = pending.pop()
        yield depth, laws @ a.output, others @ b.output, offset
        if depth == length:
            continue
        size = max(1, _BLOCK // len(a.alphabet))
        for begin in range(0, len(laws), size):  # depth first where a level is too large to be held
            block = (
                depth + 1,
                _extend(laws[begin : begin + size], a),
                _extend(others[begin : begin + size], b),
                (offset + begin) * len(a.alphabet),
            )
            pending.append(block)


def _extend(laws: Tensor, pa: PA) -> Tensor:
    """Laws (n, k) after one more symbol, for each of them in turn: (n · symbols, k)."""
    return torch.einsum("ni,aij->naj", laws, pa.matrices).flatten(0, 1)


def _kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p ‖ q) of Bernoulli laws, bits."""
    p, q = p.clamp(0, 1), q.clamp(0, 1)

    def part(x: Tensor, y: Tensor) -> Tensor:
        return torch.where(x > 0, x * (x.log2() - y.log2()), torch.zeros_like(x))

    return part(p, q) + part(1 - p, 1 - q)
