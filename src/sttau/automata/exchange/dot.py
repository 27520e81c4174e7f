"""Automata in the DOT language of Graphviz."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from sttau.automata.exchange.diagrams import diagram
from sttau.automata.value import AutomatonLike


def to_dot(
    automaton: AutomatonLike,
    *,
    probabilities: Mapping[tuple[Any, str], float] | None = None,
    variances: Mapping[tuple[Any, str], float] | Tensor | None = None,
    smallest: float = 0.005,
    hidden: Collection[tuple[int, str]] = (),
) -> str:
    r"""Return an automaton in the DOT language; double circles accept. Arguments are those of :func:`diagram`.

    Example:
        >>> from sttau.automata import tomita
        >>> print(to_dot(tomita(1)))
        digraph automaton {
          rankdir=LR;
          node [shape=circle];
          0 [shape=doublecircle];
          1;
          start0 [shape=point];
          start0 -> 0;
          0 -> 1 [label="0"];
          0 -> 0 [label="1"];
          1 -> 1 [label="0\n1"];
        }
        <BLANKLINE>
    """
    shown = diagram(automaton, probabilities=probabilities, variances=variances, smallest=smallest, hidden=hidden)
    lines = ["digraph automaton {", "  rankdir=LR;", "  node [shape=circle];"]
    for state, chance in enumerate(shown.output):
        shape = {0.0: "", 1.0: " [shape=doublecircle]"}.get(chance, f' [label="{state}\\n{chance:.2f}"]')
        lines.append(f"  {state}{shape};")
    for state, chance in enumerate(shown.initial):
        if chance >= max(smallest, 1e-300):
            label = "" if chance == 1 else f' [label="{chance:.2f}"]'
            lines += [f"  start{state} [shape=point];", f"  start{state} -> {state}{label};"]
    for (source, target), labels in shown.edges.items():
        text = "\\n".join(label.replace("\\", "\\\\").replace('"', '\\"') for label in labels)
        lines.append(f'  {source} -> {target} [label="{text}"];')
    return "\n".join([*lines, "}"]) + "\n"
