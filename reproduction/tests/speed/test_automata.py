from __future__ import annotations

from pathlib import Path

import pytest

from sttau.jobs.results import read_results
from sttau_reproduction.speed.automata import HEADER, Alphabet, compiled_rows, measure_compiled

ROOT = Path(__file__).parents[2]


def test_tables_and_network_are_timed_side_by_side() -> None:
    results = list(measure_compiled((Alphabet(3, 4, 8, 4, 5, 6),), rounds=1, round_seconds=1e-4))
    assert [result.method for result in results] == ["compiled", "st-tau soft", "st-tau exact"]
    for result in results:
        speed = result.metrics["million_symbols_per_second"]
        assert speed == pytest.approx(5 * 6 / result.metrics["forward_ms"] / 1e3)
    assert results[1].metrics["times_soft"] == 1
    assert results[0].metrics["largest_difference"] < 1e-6


def test_rows_hold_each_network_once() -> None:
    results = list(measure_compiled((Alphabet(3, 4, 8, 4, 5, 6),), rounds=1, round_seconds=1e-4))
    (row,) = compiled_rows(results)
    assert len(row) == len(HEADER)
    assert row[0] == "3 tokens, k4 d8, B5 T6"
    assert row[-1] == f"{results[0].metrics['times_soft']:.0f}×"


def test_the_table_in_the_docs_is_that_of_the_committed_results() -> None:
    rows = compiled_rows(read_results(ROOT / "results/automata/speed.jsonl"))
    page = (ROOT / "docs/automata.md").read_text("utf-8")
    assert len(rows) == 4
    for row in rows:
        assert f"| {' | '.join(row)} |" in page
    one = [row[-1] for row in compiled_rows(read_results(ROOT / "results/automata/speed-1-thread.jsonl"))]
    assert f"{', '.join(one[:-1])} and {one[-1]}" in page
