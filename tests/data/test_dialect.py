from __future__ import annotations

from pathlib import Path

import pytest

from sttau.data import read
from sttau.data.dialect import find_dialect
from sttau.errors import DataError


def write(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "separator", "comma"),
    [
        ("a,b\n1,2\n", ",", False),
        ("a;b\n1,5;2\n", ";", True),
        ("a;b\n1.5;2,5\n", ";", False),  # both: no rule, so that reading names the cell
        ("a\tb\n1\t2\n", "\t", False),
        ("a|b\n1|2\n", "|", False),
        ('text,label\n"one; two; three",1\n', ",", False),
        ("a;b;c\n1.234,5;2;3\n", ";", True),
        ("a\n1\n", ",", False),
        ("", ",", False),
        ('a,b\n"1,5",2\n', ",", True),
        ('a,b\n"1,234",2\n"12,5",3\n', ",", True),
        ('a,b\n"1,234",2\n"1,234,567",3\n', ",", False),  # thousands, or not: no rule
        ('a,b\n"1,5",2.5\n', ",", False),
        ("a,b,c\n1,2\n", ",", False),  # a row that is too short is no sign of another separator
    ],
)
def test_separator_and_decimal_comma_are_found(tmp_path: Path, text: str, separator: str, comma: bool) -> None:
    assert find_dialect(write(tmp_path, text)) == (separator, comma)


def test_a_table_of_a_european_spreadsheet_is_read_and_said_to_be_one(tmp_path: Path) -> None:
    rows = "a;01.12.2024;1.000,5;u\na;30.11.2024;0,25;u\nb;01.12.2024;-3;v\n"
    data = read(write(tmp_path, f"series;date;mv;label\n{rows}"))
    assert data.inputs[0, :, 0].tolist() == [0.25, 1000.5]
    assert "separator: semicolon, decimal comma" in data.remarks
    targets = read(write(tmp_path, "series;x;label\na;1;2,5\na;2;2,5\nb;1;3,5\n"))
    assert targets.labels.tolist() == [2.5, 3.5]


def test_points_in_a_file_with_decimal_commas_are_not_misread(tmp_path: Path) -> None:
    rows = [f"a;{number},5;u" for number in range(5)]
    rows.insert(0, "b;x1.5;v")  # not detected as a point, since it is no number
    path = write(tmp_path, "series;mv;label\n" + "\n".join([*rows[1:], *["b;7,5;v"] * 1000, "b;1.5;v"]))
    with pytest.raises(DataError, match=r"has '1\.5' as 'mv' in row 1006; expected a number with a decimal comma"):
        read(path)


def test_a_file_of_a_spreadsheet_with_its_mark_and_line_ends_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffsequence,x,label\r\n1,2,u\r\n\r\n2,3,v\r\n".encode())
    assert read(path, layout="long").inputs[:, 0, 0].tolist() == [2.0, 3.0]


def test_quoted_decimal_commas_are_numbers_and_what_is_unclear_causes_a_warning(tmp_path: Path) -> None:
    data = read(write(tmp_path, 'id,mv,label\na,"1,5",u\na,"2,25",u\nb,3,v\n'))
    assert data.inputs[0, :, 0].tolist() == [1.5, 2.25]
    assert "separator: comma, decimal comma" in data.remarks
    with pytest.warns(UserWarning, match="column 'mv' is read as categories, though .* numbers with a comma"):
        data = read(write(tmp_path, 'id,mv,label\na,"1,500",u\na,"2,250",u\nb,"1,250",v\n'))
    assert any("numbers with a comma" in remark for remark in data.remarks)
