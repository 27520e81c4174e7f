"""Automata as graphs of networkx."""

from __future__ import annotations

from typing import Any

import torch

from sttau.automata.value import AutomatonLike, as_pa
from sttau.languages import PA


def to_networkx(automaton: AutomatonLike) -> Any:
    """Return a ``networkx.MultiDiGraph`` whose edge keys are symbols.

    Nodes have ``initial`` and ``output``, edges ``symbol`` and ``probability``; the graph has ``alphabet``.

    Example:
        >>> from sttau.automata import stochastic
        >>> graph = to_networkx(stochastic(1))
        >>> graph.edges[0, 1, "1"]
        {'symbol': '1', 'probability': 0.8}
    """
    import networkx

    pa = as_pa(automaton)
    graph = networkx.MultiDiGraph(alphabet=list(pa.alphabet))
    for state, (initial, output) in enumerate(zip(pa.initial.tolist(), pa.output.tolist(), strict=True)):
        graph.add_node(state, initial=initial, output=output)
    for a, i, j in pa.matrices.nonzero().tolist():
        symbol = pa.alphabet[a]
        graph.add_edge(i, j, key=symbol, symbol=symbol, probability=float(pa.matrices[a, i, j]))
    return graph


def from_networkx(graph: Any) -> PA:
    """Read a graph with the attributes that :func:`to_networkx` sets; ``.to_dfa()`` of the result gives a DFA."""
    nodes = list(graph.nodes)
    place = {node: row for row, node in enumerate(nodes)}
    edges = list(graph.edges(data=True))
    alphabet = tuple(graph.graph.get("alphabet") or sorted({edge["symbol"] for _, _, edge in edges}))
    matrices = torch.zeros(len(alphabet), len(nodes), len(nodes), dtype=torch.float64)
    for source, target, edge in edges:
        matrices[alphabet.index(edge["symbol"]), place[source], place[target]] += edge["probability"]
    first, output = (
        torch.tensor([float(graph.nodes[node][name]) for node in nodes], dtype=torch.float64)
        for name in ("initial", "output")
    )
    return PA(first, matrices, output, alphabet)
