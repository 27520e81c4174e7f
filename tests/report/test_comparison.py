from __future__ import annotations

import re
from pathlib import Path

import sttau
from sttau.report.comparison import write_comparison_report


def test_the_page_marks_the_best_and_the_second_and_stands_alone(tmp_path: Path) -> None:
    result = sttau.compare(["lstm", "st-tau", "gru"], "digits", seeds=1, hidden_size=4, updates=3, rounds=9)
    page = write_comparison_report(tmp_path / "report.html", result).read_text("utf-8")
    values = sorted(row["value"] for row in result.rows if row["metric"] == "nll")
    assert f"<strong>{values[0]:.3f}" in page
    assert f"<u>{values[1]:.3f}" in page
    assert page.count('<svg role="img"') == len([name for name in result.metrics if name != "parameters"])
    assert not re.search(r'\bsrc="', page)
    assert len(page) < 2_000_000
