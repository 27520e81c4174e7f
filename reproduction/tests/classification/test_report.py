"""The report on the paper's experiments: its files, and the pages of the docs."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sttau.jobs import read_results
from sttau_reproduction import pages
from sttau_reproduction.classification import report
from sttau_reproduction.classification.diagnostics.work import read_diagnostics
from sttau_reproduction.classification.history import read_history
from sttau_reproduction.classification.predictions import read_summaries
from sttau_reproduction.classification.report import FIGURES, draw, figure_links, tables
from sttau_reproduction.classification.tables import TABLES
from sttau_reproduction.cli import app
from sttau_reproduction.pages import markers, renew

REPRODUCTION = Path(__file__).parents[2]
PAGES = tuple(REPRODUCTION / "docs" / f"{name}.md" for name in ("results", "analyses", "log"))
RESULTS = REPRODUCTION / "results" / "paper"
pytestmark = pytest.mark.usefixtures("no_data")


def test_the_same_files_give_the_same_report_byte_for_byte(
    folder: Path, written: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "save_figure", partial(pages.save_figure, dpi=40))  # as in the first
    page = tmp_path / "page.md"
    page.write_text("Before\n<!-- table table1 -->\n<!-- end -->\n<!-- figure tradeoff -->\n<!-- end -->\nAfter\n")
    first, place = written, written[0].parent
    answer = CliRunner().invoke(
        app, ["report", str(folder), "--out", str(tmp_path / "second"), "--docs", str(page)], catch_exceptions=False
    )
    assert answer.exit_code == 0, answer.output
    assert f"with {len(FIGURES)} figures" in answer.output
    assert {path.stem for path in first if path.suffix == ".png"} == set(FIGURES)
    for path in first:
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes(), path.name
    table = (place / "table1.md").read_text("utf-8").split("\n\n", 1)[1].strip()
    renewed = page.read_text("utf-8")
    assert renewed.startswith(f"Before\n<!-- table table1 -->\n\n{table}\n\n<!-- end -->\n")
    assert renewed.endswith(f"![{FIGURES['tradeoff']}](images/paper-tradeoff.png)\n\n<!-- end -->\nAfter\n")
    picture = tmp_path / "images" / "paper-tradeoff.png"
    assert picture.read_bytes() == (place / "tradeoff.png").read_bytes()
    assert renew(renewed, {"table1": table}, figure_links(["tradeoff"])) == renewed


@pytest.fixture(scope="module")
def html(written: list[Path]) -> str:
    (path,) = (path for path in written if path.name == "report.html")
    return path.read_text("utf-8")


def test_the_page_has_every_table_and_figure_and_needs_no_other_file(html: str) -> None:
    headings = re.findall(r"<h2 id=[^>]*>(.*?)</h2>", html)
    assert headings == [*(table.title for table in TABLES), "Time", "Training and reading"]
    assert html.count("<table>") == sum(len(table.networks) for table in TABLES) + 1  # that of times
    assert html.count("<figcaption>") == len(FIGURES)
    assert not re.search(r'<(img|link|script)\b|src="|href="(?!#)|url\((?!#)', html)
    assert len(html.encode()) < 2_000_000


def test_every_figure_has_a_text_alternative_and_every_link_a_target(html: str) -> None:
    panels = re.findall(r"<svg [^>]*>", html)
    assert len(panels) >= len(FIGURES)
    assert all('role="img"' in panel and re.search(r'aria-label="[^"]+', panel) for panel in panels)
    assert set(re.findall(r'href="#(part\d+)"', html)) == set(re.findall(r'id="(part\d+)"', html))
    assert "prefers-color-scheme: dark" in html


def test_a_page_that_asks_for_what_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="names the table 'table9'; known: table1"):
        renew("<!-- table table9 -->\n<!-- end -->", {"table1": ""}, {})
    assert "*Not yet computed.*" in renew("<!-- figure ablation -->\n<!-- end -->", {}, figure_links(()))


def test_without_results_there_are_no_figures() -> None:
    assert draw([], {}) == {}


def test_the_pages_have_a_place_for_every_table_and_figure() -> None:
    texts = [page.read_text("utf-8") for page in PAGES]
    places = [name for text in texts for kind in ("table", "figure") for name in markers(text, kind)]
    assert sorted(places) == sorted([*tables([], {}), *FIGURES])


def test_the_pages_show_the_tables_of_the_committed_results() -> None:
    results, summaries = read_results(RESULTS / "results.jsonl.gz"), read_summaries(RESULTS)
    diagnostics = read_diagnostics(RESULTS)
    made = tables(results, summaries, read_history(RESULTS), diagnostics)
    drawn = [
        name for name in FIGURES if name != "corrupted" or any("clean_0_ece" in row.metrics for row in diagnostics)
    ]
    links = figure_links(drawn)
    for path in PAGES:
        page = path.read_text("utf-8")
        assert renew(page, made, links) == page
        for name in set(markers(page, "figure")) & set(drawn):
            assert (path.parent / "images" / f"paper-{name}.png").exists()
