from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.patches import Rectangle

from sttau.jobs import Result, read_results
from sttau.plotting.speed import HEADER, compare_speed, speed_figure, speed_table
from sttau.tables import markdown_table

ROOT = Path(__file__).parents[2]
MEASURED = sorted((ROOT / "benchmarks").glob("*/results.jsonl"))


def _result(method: str, **metrics: float) -> Result:
    settings = {"precision": "float32"}
    return Result("speed", "some shape", method, 2, 0, metrics, settings, seconds=1.0)


def test_a_comparison_divides_theirs_by_ours() -> None:
    (comparison,) = compare_speed(
        [
            _result("nn.LSTM", training_ms=10, forward_ms=4, samples_ms=5, training_mb=100),
            _result("st-tau", training_ms=2, forward_ms=1, samples_ms=2, training_mb=25),
            _result("reference", training_ms=400),
        ]
    )
    (row,) = speed_table([comparison])
    assert row == ("some shape", "float32", "5.0×", "4.0×", "0.40", "0.25", "", "", "", "", "200×")
    table = markdown_table([row], HEADER)
    assert table.splitlines()[0] == "| shape | dtype | training | forward | 10 samples | memory | vs. reference |"
    bars = speed_figure([comparison], "title").axes[0].patches
    assert [bar.get_width() for bar in bars if isinstance(bar, Rectangle)] == [5.0, 4.0, 2.5]


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.parent.name)
def test_the_page_on_performance_shows_the_committed_numbers(path: Path) -> None:
    table = markdown_table(speed_table(compare_speed(read_results(path))), HEADER)
    assert table in (ROOT / "docs" / "performance.md").read_text("utf-8")


def test_there_are_committed_numbers() -> None:
    assert MEASURED
