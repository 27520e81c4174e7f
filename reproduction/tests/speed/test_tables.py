from __future__ import annotations

from pathlib import Path

from sttau.jobs import read_results
from sttau.tables import markdown_table
from sttau_reproduction.speed.automata import Alphabet, measure_compiled
from sttau_reproduction.speed.tables import COMPILED, ROOFLINE, compiled_rows, roofline_table

ROOT = Path(__file__).parents[3]


def test_rows_hold_each_network_once() -> None:
    results = list(measure_compiled((Alphabet(3, 4, 8, 4, 5, 6),), rounds=1, round_seconds=1e-4))
    (row,) = compiled_rows(results)
    assert len(row) == len(COMPILED)
    assert row[0] == "3 tokens, k4 d8, B5 T6"
    assert row[-1] == f"{results[0].metrics['times_soft']:.0f}×"


def test_the_page_has_the_ratios_of_one_thread() -> None:
    results = read_results(ROOT / "reproduction/results/automata/speed-1-thread.jsonl")
    one = [row[-1] for row in compiled_rows(results)]
    assert f"{', '.join(one[:-1])} and {one[-1]}" in (ROOT / "docs/automata.md").read_text("utf-8")


def test_the_page_on_performance_shows_the_limits() -> None:
    results = read_results(ROOT / "benchmarks" / "h200" / "roofline.jsonl")
    table = markdown_table(roofline_table(results, 4.8e12, 67e12), ROOFLINE)
    assert table in (ROOT / "docs" / "performance.md").read_text("utf-8")
