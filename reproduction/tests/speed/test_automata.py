from __future__ import annotations

import pytest

from sttau_reproduction.speed.automata import Alphabet, measure_compiled


def test_tables_and_network_are_timed_side_by_side() -> None:
    results = list(measure_compiled((Alphabet(3, 4, 8, 4, 5, 6),), rounds=1, round_seconds=1e-4))
    assert [result.method for result in results] == ["compiled", "st-tau soft", "st-tau exact"]
    for result in results:
        speed = result.metrics["million_symbols_per_second"]
        assert speed == pytest.approx(5 * 6 / result.metrics["forward_ms"] / 1e3)
    assert results[1].metrics["times_soft"] == 1
    assert results[0].metrics["largest_difference"] < 1e-6
