from __future__ import annotations

import re
from pathlib import Path

import pytest

from sttau.jobs import read_results
from sttau.quickstart import Quickstart, Settings, run_quickstart
from sttau.report.html import summary_table, write_report


@pytest.fixture(scope="module")
def small() -> Quickstart:
    settings = Settings(grammar=1, automaton_updates=200, digit_updates=5, digit_seeds=2, samples=2, digit_hidden=8)
    return run_quickstart(settings)


def test_the_page_is_self_contained(small: Quickstart, tmp_path: Path) -> None:
    page = write_report(small, tmp_path / "out").read_text("utf-8")
    assert re.findall(r'\bsrc="|url\(h|@import', page) == []
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in re.findall(r'href="([^"]*)"', page))
    panels = re.findall(r'<svg role="img" aria-label="([^"]+)"', page)
    assert len(panels) == 2 + 4 + 2 + 2
    assert len(page) < 2_000_000
    assert "http" not in page
    assert "not an equal" in page, "the caveat of the README"
    assert "sttau serve" in page, "a next step"
    assert "prefers-color-scheme: dark" in page
    assert "proved equal to that of the grammar" in page


def test_figures_and_results_are_written_with_the_page_and_no_temporary_file_remains(
    small: Quickstart, tmp_path: Path
) -> None:
    write_report(small, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"report.html", "results.jsonl", "reading.png"}
    assert read_results(tmp_path / "results.jsonl") == small.results
    assert (tmp_path / "reading.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_table_gives_mean_and_spread_over_seeds(small: Quickstart) -> None:
    header, rows = summary_table(small.results)
    assert header[0] == "method"
    assert [row[0] for row in rows] == ["LSTM", "ST-τ LSTM"]
    errors = [run.result.metrics["pe"] for run in small.digits if run.method == "lstm"]
    assert rows[0][1].startswith(f"{sum(errors) / 2:.2f} ± ")
