from __future__ import annotations

from sttau.tables import markdown_table


def test_a_table_is_markdown_with_numbers_to_the_right() -> None:
    table = markdown_table([("a", "b", "1"), ("c", "d", "2")], ("x", "y", "z"))
    assert table.splitlines() == ["| x | y | z |", "| --- | --- | ---: |", "| a | b | 1 |", "| c | d | 2 |"]
    assert markdown_table([("a", "1")], ("x", "y"), text_columns=1).splitlines()[1] == "| --- | ---: |"


def test_columns_that_are_empty_in_every_row_are_left_out() -> None:
    assert markdown_table([("a", "", "1"), ("b", "", "")], ("x", "y", "z")).splitlines() == [
        "| x | z |", "| --- | ---: |", "| a | 1 |", "| b |  |",
    ]  # fmt: skip
