from __future__ import annotations

import re

import pytest

from reproduction.tests.classification.fabricated import fabricate
from sttau.jobs import read_results
from sttau_reproduction.classification.page import parse_tables, write_page
from sttau_reproduction.classification.predictions import read_summaries
from sttau_reproduction.classification.report import FIGURES, draw
from sttau_reproduction.classification.tables import TABLES, tables


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = fabricate(tmp_path_factory.mktemp("paper"))
    results, summaries = read_results(folder / "results.jsonl"), read_summaries(folder)
    drawn = draw(results, summaries, lambda row: None)
    titles = {table.name: table.title for table in TABLES}
    path = write_page(folder / "report.html", tables(results, summaries), titles, drawn, FIGURES, "versions & machines")
    return path.read_text("utf-8")


def test_the_page_has_every_table_and_figure_and_needs_no_other_file(page: str) -> None:
    headings = re.findall(r"<h2 id=[^>]*>(.*?)</h2>", page)
    assert headings == [table.title for table in TABLES] + ["Training and reading"]
    assert page.count("<table>") == sum(len(table.networks) for table in TABLES)
    assert page.count("<figcaption>") == len(FIGURES)
    assert not re.search(r'<(img|link|script)\b|src="|href="(?!#)|url\((?!#)', page)
    assert len(page.encode()) < 2_000_000


def test_every_figure_has_a_text_alternative_and_every_link_a_target(page: str) -> None:
    panels = re.findall(r"<svg [^>]*>", page)
    assert len(panels) >= len(FIGURES)
    assert all('role="img"' in panel and re.search(r'aria-label="[^"]+', panel) for panel in panels)
    assert set(re.findall(r'href="#(part\d+)"', page)) == set(re.findall(r'id="(part\d+)"', page))
    assert "prefers-color-scheme: dark" in page
    assert "versions &amp; machines" in page


def test_tables_keep_their_captions_and_their_marks() -> None:
    text = "**One**\n\n| a | b |\n| --- | ---: |\n| x<y | **1** |\n\n**Two**\n\n| a |\n| --- |\n| z |"
    one, two = parse_tables(text, "title")
    assert (one.caption, one.header, two.caption) == ("One", ["a", "b"], "Two")
    assert one.rows == [["x<y", "<strong>1</strong>"]]
    assert parse_tables("| a |\n| --- |\n| z |", "title")[0].caption == "title"
