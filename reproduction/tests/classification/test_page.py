from __future__ import annotations

from pathlib import Path

from sttau_reproduction.classification.page import parse_tables, write_page


def test_the_last_line_is_escaped(tmp_path: Path) -> None:
    page = write_page(tmp_path / "page.html", {}, {}, {}, {}, "versions & machines").read_text("utf-8")
    assert "versions &amp; machines" in page


def test_tables_keep_their_captions_and_their_marks() -> None:
    text = "**One**\n\n| a | b |\n| --- | ---: |\n| x<y | **1** |\n\n**Two**\n\n| a |\n| --- |\n| z |"
    one, two = parse_tables(text, "title")
    assert (one.caption, one.header, two.caption) == ("One", ["a", "b"], "Two")
    assert one.rows == [["x<y", "<strong>1</strong>"]]
    assert parse_tables("| a |\n| --- |\n| z |", "title")[0].caption == "title"
