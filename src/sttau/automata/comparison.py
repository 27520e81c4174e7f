"""Are two automata the same? Answered with a proof or a counter-example."""

from __future__ import annotations

from dataclasses import dataclass

from automata.fa.dfa import DFA


@dataclass(frozen=True)
class Equivalence:
    """The answer: true, or false with a shortest string on which the two differ."""

    equal: bool
    counterexample: str | None

    def __bool__(self) -> bool:
        return self.equal


def compare(first: DFA, second: DFA) -> Equivalence:
    """Decide whether two DFAs accept the same language, by exploring their product.

    Every pair of states that some string reaches is visited, so a positive answer holds for all strings of all lengths.

    Example:
        >>> from sttau.automata import tomita
        >>> compare(tomita(1), tomita(1))
        Equivalence(equal=True, counterexample=None)
        >>> compare(tomita(4), tomita(7)).counterexample
        '000'
    """
    if first.input_symbols != second.input_symbols:
        raise ValueError(
            f"the automata read different symbols: {sorted(first.input_symbols)} and {sorted(second.input_symbols)}"
        )
    difference = first.symmetric_difference(second, minify=False)
    if difference.isempty():
        return Equivalence(True, None)
    shortest = difference.minimum_word_length()
    return Equivalence(False, min(difference.words_of_length(shortest)))
