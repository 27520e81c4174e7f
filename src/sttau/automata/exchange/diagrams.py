"""Content of a drawing of an automaton: numbered states and labeled edges."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from automata.fa.dfa import DFA
from torch import Tensor

from sttau.automata.exchange.states import number_states
from sttau.automata.value import AutomatonLike, as_automaton
from sttau.languages import PA

_CERTAIN = 5e-4  # a probability that is shown as 1.000, or a variance that is negligible


class Diagram(NamedTuple):
    """States and edges of a drawing; states are numbers.

    Attributes:
        initial: Probability that each state is the initial one.
        output: Probability that each state accepts.
        edges: Labels of the edge between two states.
    """

    initial: list[float]
    output: list[float]
    edges: dict[tuple[int, int], list[str]]


def diagram(
    automaton: AutomatonLike,
    *,
    probabilities: Mapping[tuple[Any, str], float] | None = None,
    variances: Mapping[tuple[Any, str], float] | Tensor | None = None,
    intervals: tuple[Tensor, Tensor] | None = None,
    smallest: float = 0.005,
    hidden: Collection[tuple[int, str]] = (),
) -> Diagram:
    """Return the states and edges of a drawing.

    Args:
        automaton: Automaton. States of a DFA are numbered in breadth-first order, those of a PA by row.
        probabilities: Probability of each edge (state, symbol) of a DFA, added to the label.
        variances: Variance of each edge of a DFA, or (symbols, k, k) variances of a PA, added to the label unless the
            edge is certain.
        intervals: Lower and upper ends, (symbols, k, k) each, of the probabilities of a PA, such as those of
            :func:`sttau.automata.move_intervals`, added to the label unless both are shown as the probability.
        smallest: Smallest probability of an edge of a PA that is shown.
        hidden: Pairs (state, symbol) of a PA whose edges are not shown, such as those without data.

    Example:
        >>> from sttau.automata import stochastic, tomita
        >>> diagram(tomita(1)).edges
        {(0, 1): ['0'], (0, 0): ['1'], (1, 1): ['0', '1']}
        >>> diagram(stochastic(1)).edges[0, 1]
        ['0 [0.10]', '1 [0.80]']
    """
    automaton = as_automaton(automaton)
    if isinstance(automaton, DFA):
        if hidden:
            raise TypeError("hidden is for PAs; leave moves out of a DFA itself")
        if intervals is not None:
            raise TypeError("intervals are for PAs; a DFA has certain moves")
        return _dfa_diagram(automaton, probabilities, variances)
    if probabilities is not None or not (variances is None or isinstance(variances, Tensor)):
        raise TypeError("a PA has its own probabilities, and variances must be a tensor (symbols, k, k)")
    return _pa_diagram(automaton, variances, intervals, smallest, hidden)


def _dfa_diagram(
    dfa: DFA,
    probabilities: Mapping[tuple[Any, str], float] | None,
    variances: Mapping[tuple[Any, str], float] | Tensor | None,
) -> Diagram:
    if isinstance(variances, Tensor):
        raise TypeError("variances of a DFA's edges must be a mapping from (state, symbol)")
    edges: dict[tuple[int, int], list[str]] = {}
    number = number_states(dfa)
    for state, source in number.items():
        for symbol in sorted(dfa.transitions[state]):
            p = None if probabilities is None else probabilities[state, symbol]
            v = None if variances is None else variances[state, symbol]
            target = number[dfa.transitions[state][symbol]]
            edges.setdefault((source, target), []).append(_label(symbol, p, v, 3))
    return Diagram(
        initial=[float(state == dfa.initial_state) for state in number],
        output=[float(state in dfa.final_states) for state in number],
        edges=edges,
    )


def _pa_diagram(
    pa: PA,
    variances: Tensor | None,
    intervals: tuple[Tensor, Tensor] | None,
    smallest: float,
    hidden: Collection[tuple[int, str]],
) -> Diagram:
    for name, part in (("variances", variances), *(("intervals", end) for end in intervals or ())):
        if part is not None and part.shape != pa.matrices.shape:
            raise ValueError(
                f"{name} must have the shape of matrices, {tuple(pa.matrices.shape)}, got {tuple(part.shape)}"
            )
    edges: dict[tuple[int, int], list[str]] = {}
    table = pa.matrices.tolist()
    spread = None if variances is None else variances.tolist()
    ends = None if intervals is None else [end.tolist() for end in intervals]
    for source in range(pa.num_states):
        for a, symbol in enumerate(pa.alphabet):
            for target, p in enumerate(table[a][source]):
                if p >= max(smallest, 1e-300) and (source, symbol) not in hidden:
                    v = None if spread is None else spread[a][source][target]
                    between = None if ends is None else (ends[0][a][source][target], ends[1][a][source][target])
                    edges.setdefault((source, target), []).append(_label(symbol, p, v, 2, between))
    return Diagram(pa.initial.tolist(), pa.output.tolist(), edges)


def _label(
    symbol: str,
    probability: float | None,
    variance: float | None,
    digits: int,
    interval: tuple[float, float] | None = None,
) -> str:
    parts = [] if probability is None else [f"{probability:.{digits}f}"]
    certain = variance is None or variance < _CERTAIN or (probability is not None and probability > 1 - _CERTAIN)
    parts += [] if certain else [f"σ² {variance:.2g}"]
    if interval is not None:
        low, high = (f"{end:.{digits}f}" for end in interval)
        parts += [] if [low] == [high] == parts[:1] else [f"{low}–{high}"]
    return f"{symbol} [{', '.join(parts)}]" if parts else symbol
