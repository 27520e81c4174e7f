from __future__ import annotations

import math
from typing import Any


def test_the_automaton_has_stochastic_matrices_and_is_exported(client: Any) -> None:
    found = client.get("/api/automaton?model=strings&kind=pa").json()
    for matrix in found["matrices"]:
        assert all(math.isclose(sum(row), 1, abs_tol=1e-6) for row in matrix)
    assert len(found["places"]) == len(found["output"])
    for form, begin in (("dot", "digraph"), ("json", "{"), ("svg", "<?xml")):
        assert client.get(f"/api/automaton?model=strings&form={form}").text.startswith(begin)
    assert client.get("/api/automaton?model=series").status_code == 422
