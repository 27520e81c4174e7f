"""Automata in the DOT language of Graphviz."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from automata.fa.dfa import DFA
from torch import Tensor

from sttau.automata.exchange.diagrams import diagram
from sttau.automata.exchange.nondeterministic import dfa_from_transitions
from sttau.automata.value import AutomatonLike
from sttau.errors import AutomatonError

_NAME = r""""(?:[^"\\]|\\.)*"|[\w.]+"""
_STATEMENT = re.compile(rf"\s*({_NAME})\s*(?:->\s*({_NAME})\s*)?(?:\[((?:\"(?:[^\"\\]|\\.)*\"|[^\]\"])*)\])?\s*;?")
_VALUE = re.compile(rf"=\s*(?:{_NAME})\s*;?")
_ATTRIBUTE = re.compile(rf"(\w+)\s*=\s*({_NAME})")
_NOTE = re.compile(r"(.+) \[[^\[\]]*\]", re.DOTALL)  # a symbol, and its probability or variance


def to_dot(
    automaton: AutomatonLike,
    *,
    probabilities: Mapping[tuple[Any, str], float] | None = None,
    variances: Mapping[tuple[Any, str], float] | Tensor | None = None,
    intervals: tuple[Tensor, Tensor] | None = None,
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
    shown = diagram(
        automaton,
        probabilities=probabilities,
        variances=variances,
        intervals=intervals,
        smallest=smallest,
        hidden=hidden,
    )
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


def from_dot(text: str, source: str = "the DOT text") -> DFA:
    """Return the DFA of a graph in the DOT language, as :func:`to_dot` or AALpy writes it.

    Double circles accept; the initial state is where the edge from a point, or from a node whose name begins with
    ``__start``, leads. An edge may have several symbols, on lines of their own. Probabilities of a DFA's edges are left
    out; those of a PA are rounded in a drawing, so it is not read.

    Args:
        text: Content of the file.
        source: Name of the file for error messages.

    Raises:
        AutomatonError: If the text holds no DFA.

    Example:
        >>> from sttau.automata import compare, tomita
        >>> compare(from_dot(to_dot(tomita(3))), tomita(3))
        Equivalence(equal=True, counterexample=None)
    """
    body = re.fullmatch(r"(?s)\s*(?:strict\s+)?digraph[^{]*\{(.*)\}\s*", text)
    if body is None:
        raise AutomatonError(f"{source} is no directed graph in the DOT language: it must be digraph … {{ … }}")
    states: dict[str, dict[str, str]] = {}
    edges: list[tuple[str, str, str | None]] = []
    place = 0
    while place < len(body[1]) and (found := _STATEMENT.match(body[1], place)):
        place = found.end()
        name, target, given = _plain(found[1]), found[2], found[3] or ""
        attributes = {key: _plain(value) for key, value in _ATTRIBUTE.findall(given)}
        if target is not None:
            edges.append((name, _plain(target), attributes.get("label")))
        elif body[1][place : place + 1] == "=":  # an attribute of the graph
            value = _VALUE.match(body[1], place)
            if value is None:
                break
            place = value.end()
        elif name not in ("node", "edge", "graph"):
            states.setdefault(name, {}).update(attributes)
    if body[1][place:].strip():
        raise AutomatonError(f"{source} cannot be read from {body[1][place:].strip()[:60]!r} on")
    marks = {name for name, found in states.items() if found.get("shape") in ("point", "none", "plaintext")}
    marks |= {name for name in states if name.startswith("__start")}
    initial = [(target, label) for origin, target, label in edges if origin in marks]
    if len(initial) != 1 or initial[0][1]:
        raise AutomatonError(f"{source} must have one initial state without a probability, but has {len(initial)}")
    transitions = []
    for origin, target, label in edges:
        if origin in marks:
            continue
        for line in (label or "").split("\n"):
            note = _NOTE.fullmatch(line)
            transitions.append((origin, note[1] if note else line, target))
    accepting = [name for name, found in states.items() if found.get("shape") == "doublecircle"]
    if any("\n" in found.get("label", "") for found in states.values()):
        raise AutomatonError(f"{source} has probabilities that are rounded for a drawing; read the PA from .json")
    if any(symbol == "" for _, symbol, _ in transitions):
        raise AutomatonError(f"{source} has an edge without a symbol")
    names = [name for name in states if name not in marks]
    made = dfa_from_transitions(names, transitions, initial[0][0], accepting, source)
    moves = {(origin, symbol) for origin, symbol, _ in transitions}
    if len(moves) < len(transitions):
        raise AutomatonError(f"{source} has several moves of a state under one symbol; a PA is read from .json")
    return made


def _plain(text: str) -> str:
    """A name without its quotes and escapes."""
    if not text.startswith('"'):
        return text
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text[1:-1])
