from __future__ import annotations

import re
from pathlib import Path

import pytest

from sttau_reproduction.classification.page import parse_tables, write_page
from sttau_reproduction.classification.report import FIGURES
from sttau_reproduction.classification.tables import TABLES


def test_the_last_line_is_escaped(tmp_path: Path) -> None:
    page = write_page(tmp_path / "page.html", {}, {}, {}, {}, "versions & machines").read_text("utf-8")
    assert "versions &amp; machines" in page


def test_tables_keep_their_captions_and_their_marks() -> None:
    text = "**One**\n\n| a | b |\n| --- | ---: |\n| x<y | **1** |\n\n**Two**\n\n| a |\n| --- |\n| z |"
    one, two = parse_tables(text, "title")
    assert (one.caption, one.header, two.caption) == ("One", ["a", "b"], "Two")
    assert one.rows == [["x<y", "<strong>1</strong>"]]
    assert parse_tables("| a |\n| --- |\n| z |", "title")[0].caption == "title"


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
