"""What counts as an automaton: DFAs and PAs, and everything that stands for one."""

from __future__ import annotations

from typing import Any, Protocol

from automata.fa.dfa import DFA

from sttau.languages import PA


class HasAutomaton(Protocol):
    """An object that stands for an automaton, such as the result of an extraction or a compiled model."""

    @property
    def automaton(self) -> DFA | PA:
        """The automaton it stands for."""


#: All that functions of automata accept.
AutomatonLike = DFA | PA | HasAutomaton


def as_automaton(value: AutomatonLike) -> DFA | PA:
    """Return the DFA or PA that a value is, or stands for.

    Args:
        value: A ``DFA`` or ``PA``, or an ``ExtractedDFA``, ``ExtractedPA``, ``Reduction`` or ``CompiledModel``.

    Example:
        >>> from sttau.automata import reduce, stochastic
        >>> as_automaton(reduce(stochastic(1))) == stochastic(1)
        True
    """
    found: Any = value if isinstance(value, DFA | PA) else getattr(value, "automaton", None)
    if not isinstance(found, DFA | PA):
        raise TypeError(
            f"automaton must be a DFA, a PA, an extracted automaton or a compiled model, got {type(value).__name__}; "
            "sttau.automata.extract_dfa and extract_pa read an automaton from a network"
        )
    return found


def as_pa(value: AutomatonLike) -> PA:
    """Return the same as a PA; a DFA accepts with probability 0 or 1.

    Example:
        >>> from sttau.automata import tomita
        >>> as_pa(tomita(1)).probability(["11", "10"])
        tensor([1., 0.], dtype=torch.float64)
    """
    automaton = as_automaton(value)
    return PA.from_dfa(automaton) if isinstance(automaton, DFA) else automaton
