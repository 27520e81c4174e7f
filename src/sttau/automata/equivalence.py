"""Equivalence of automata: proofs and counterexamples."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch
from automata.fa.dfa import DFA
from torch import Tensor

from sttau.automata.value import AutomatonLike, as_automaton, as_pa
from sttau.languages import PA


@dataclass(frozen=True)
class Equivalence:
    """Result of a comparison: true, or false with a shortest string on which the automata differ.

    Attributes:
        equal: Whether the automata are equivalent.
        counterexample: A shortest string on which they differ, with its symbols joined.
        reason: Explanation of the result, which ``str()`` includes.
    """

    equal: bool
    counterexample: str | None
    reason: str = field(default="", repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        return f"equal: {self.reason}" if self.equal else f"different on “{self.counterexample}”: {self.reason}"


def compare(
    first: AutomatonLike, second: AutomatonLike, *, tolerance: float = 1e-9, exact: bool = False
) -> Equivalence:
    """Decide whether two automata accept every string with the same probability.

    **DFAs** are explored together (Hopcroft and Karp, 1971). The exploration covers all reachable pairs of states, so a
    positive result holds for strings of all lengths, and a negative one has a shortest counterexample, the first in
    lexicographic order.

    **PAs** (a DFA compared with a PA is converted) are compared by Tzeng's algorithm (SIAM J. Comput. 21, 1992). The
    pairs of state distributions after all strings span a space of fewer than k + k' dimensions, and two PAs that agree
    on a basis of it agree on all strings. The basis is taken from strings in order of length. In floating-point
    arithmetic agreement has a tolerance; ``exact=True`` has none.

    Args:
        first: Automaton: a DFA, a PA, an extracted automaton or a compiled model.
        second: Automaton over the same symbols, in any order.
        tolerance: Tolerance for PAs. Probabilities this close count as equal, and a pair of distributions this close
            (Euclidean) to the span of earlier ones as a combination of them. "Different" is certain. "Equal" says that
            the automata agree on the strings of the basis; it bounds no difference on long strings, on which errors
            below the tolerance add up.
        exact: Whether PAs are compared in rational arithmetic, without a tolerance: a probability is the decimal number
            that is printed for it, so 0.1 is 1/10. Both results are then proofs. It is slow for more than about 20
            states.

    Example:
        >>> from sttau.automata import stochastic, tomita
        >>> compare(tomita(1), tomita(1))
        Equivalence(equal=True, counterexample=None)
        >>> print(compare(tomita(4), tomita(7)))
        different on “000”: the first rejects it, the second accepts it
        >>> print(compare(stochastic(1), stochastic(2)))
        different on “0”: probabilities 0.1 and 0.3
        >>> print(compare(stochastic(2), stochastic(2)))
        equal: the probabilities of 3 strings agree to 1e-09, and their state distributions span those of all strings
    """
    a, b = as_automaton(first), as_automaton(second)
    if isinstance(a, DFA) and isinstance(b, DFA):
        return _compare_dfas(a, b)
    return _compare_exactly(*aligned(a, b)) if exact else _compare_pas(*aligned(a, b), tolerance)


def _compare_dfas(first: DFA, second: DFA) -> Equivalence:
    """Hopcroft and Karp (1971): states reached by the same string are merged; merged states must agree.

    Strings are explored in order of length, then of the alphabet. A pair whose states are merged already is skipped: a
    string that distinguishes the two also distinguishes two neighbors in the chain of pairs that merged them, which
    were reached by earlier strings. So the first counterexample found is the first in this order.
    """
    _check_symbols(first.input_symbols, second.input_symbols)
    symbols = sorted(first.input_symbols)
    merged: dict[tuple[int, Any], tuple[int, Any]] = {}  # parent of (automaton, state) in the union-find forest

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
            verdicts = ["accepts" if answer else "rejects" for answer in answers]
            return Equivalence(False, "".join(word), f"the first {verdicts[0]} it, the second {verdicts[1]} it")
        for symbol in symbols:  # a missing move leads to None, a dead state
            reached = (
                None if a is None else first.transitions[a].get(symbol),
                None if b is None else second.transitions[b].get(symbol),
            )
            one, other = find((0, reached[0])), find((1, reached[1]))
            if one != other:
                merged[one] = other
                queue.append((reached, (*word, symbol)))
    return Equivalence(True, None, f"the {len(queue)} reachable pairs of states agree")


def _compare_pas(first: PA, second: PA, tolerance: float) -> Equivalence:
    start = torch.cat([first.initial, second.initial])
    k = first.num_states
    basis = start.new_zeros(0, len(start))  # orthonormal rows
    queue: list[tuple[tuple[int, ...], Tensor]] = [((), start)]
    kept = 0
    for word, states in queue:
        p, q = float(states[:k] @ first.output), float(states[k:] @ second.output)
        if abs(p - q) > tolerance:
            string = "".join(first.alphabet[symbol] for symbol in word)
            return Equivalence(False, string, f"probabilities {p:.6g} and {q:.6g}")
        rest = states
        for _ in range(2):  # the second pass removes rounding errors
            rest = rest - basis.T @ (basis @ rest)
        length = float(rest.norm())
        if length <= tolerance:
            continue
        basis = torch.cat([basis, (rest / length)[None]])
        kept += 1
        for symbol in range(len(first.alphabet)):
            moved = torch.cat([states[:k] @ first.matrices[symbol], states[k:] @ second.matrices[symbol]])
            queue.append(((*word, symbol), moved))
    return Equivalence(
        True,
        None,
        f"the probabilities of {kept} strings agree to {tolerance:g}, and their state distributions span those of all "
        "strings",
    )


def _compare_exactly(first: PA, second: PA) -> Equivalence:
    """Tzeng's algorithm on fractions; the basis is kept in echelon form."""
    symbols = range(len(first.alphabet))
    tables = [_fractions(first.matrices), _fractions(second.matrices)]
    outputs = [*_fractions(first.output), *(-p for p in _fractions(second.output))]
    k = first.num_states
    basis: list[tuple[int, list[Fraction]]] = []  # place of the first entry that is not 0, which is 1, and the row
    queue: list[tuple[tuple[int, ...], list[Fraction]]] = [((), _fractions(torch.cat([first.initial, second.initial])))]
    for word, states in queue:
        gap = sum((p * f for p, f in zip(states, outputs, strict=True)), Fraction(0))
        if gap:
            p = sum((p * f for p, f in zip(states[:k], outputs[:k], strict=True)), Fraction(0))
            string = "".join(first.alphabet[symbol] for symbol in word)
            return Equivalence(
                False, string, f"probabilities {float(p):.6g} and {float(p - gap):.6g}, exactly compared"
            )
        rest = states
        for place, row in basis:
            if factor := rest[place]:
                rest = [x - factor * y for x, y in zip(rest, row, strict=True)]
        lead = next((place for place, x in enumerate(rest) if x), None)
        if lead is None:
            continue
        basis.append((lead, [x / rest[lead] for x in rest]))
        for symbol in symbols:
            moved = _moved(states[:k], tables[0][symbol]) + _moved(states[k:], tables[1][symbol])
            queue.append(((*word, symbol), moved))
    return Equivalence(
        True, None, f"the probabilities of {len(basis)} strings agree exactly, and span those of all strings: a proof"
    )


def _fractions(values: Tensor) -> Any:
    """Nested lists of the decimal numbers that are printed for floats, as fractions."""
    if values.dim() == 0:
        return Fraction(repr(float(values)))
    return [_fractions(part) for part in values]


def _moved(states: list[Fraction], table: list[list[Fraction]]) -> list[Fraction]:
    """A distribution times a matrix."""
    columns = range(len(table[0]))
    return [sum((p * row[j] for p, row in zip(states, table, strict=True) if p), Fraction(0)) for j in columns]


def aligned(first: AutomatonLike, second: AutomatonLike) -> tuple[PA, PA]:
    """Return both automata as PAs over the same alphabet, in the same order and on one device."""
    a, b = as_pa(first), as_pa(second)
    _check_symbols(a.alphabet, b.alphabet)
    if a.alphabet != b.alphabet:
        order = [b.alphabet.index(symbol) for symbol in a.alphabet]
        b = PA(b.initial, b.matrices[order], b.output, a.alphabet)
    return a, b.to(a.output.device)


def _check_symbols(first: Any, second: Any) -> None:
    if set(first) != set(second):
        raise ValueError(f"the automata read different symbols: {sorted(first)} and {sorted(second)}")
