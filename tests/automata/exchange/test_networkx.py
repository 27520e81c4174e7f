from __future__ import annotations

import networkx

from sttau.automata import random_dfa, to_networkx


def test_a_graph_is_one_that_networkx_works_with() -> None:
    graph = to_networkx(random_dfa(8, seed=0))
    assert networkx.is_weakly_connected(graph)
    assert len(networkx.descendants(graph, 0)) >= 7
    assert graph.graph["alphabet"] == ["0", "1"]
