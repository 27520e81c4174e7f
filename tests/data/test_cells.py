from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path

import pytest

from sttau.data import read
from sttau.data.cells import as_names
from tests.data.tables import LONG, write


@pytest.mark.parametrize(
    "times",
    [
        ["2020-01-02", "2020-01-01T23:59:59"],
        ["2020-01-01T12:00:00+01:00", "2020-01-01T10:59:00Z"],
        ["1e3", "999"],
        ["-1", "-2"],
    ],
)
def test_times_may_be_numbers_or_dates(tmp_path: Path, times: list[str]) -> None:
    rows = [{"sequence": "a", "time": time, "x": x, "label": "u"} for x, time in enumerate(times)]
    rows.append({"sequence": "b", "time": "1", "x": 5, "label": "v"})
    data = read(write(tmp_path / "t.csv", rows))
    assert data.inputs[0, :, 0].tolist() == [1.0, 0.0]


def test_dates_of_parquet_are_times(tmp_path: Path) -> None:
    rows = [{"sequence": 1, "time": datetime(2020, 1, 3 - x), "x": x, "label": x // 2} for x in range(2)] + [
        {"sequence": 2, "time": datetime(2020, 1, 1), "x": 5, "label": 1}
    ]
    assert read(write(tmp_path / "t.parquet", rows)).inputs[0, :, 0].tolist() == [1.0, 0.0]


def test_missing_values_are_all_reported_with_their_rows_and_never_guessed(tmp_path: Path) -> None:
    rows = [dict(row) for row in LONG * 3]
    for number, row in enumerate(rows):
        row["time"] = number
    for number, cell in zip((0, 3, 5, 7, 9, 11), ("", "NA", "nan", "?", "null", " "), strict=True):
        rows[number]["pulse"] = cell
    rows[2]["temperature"] = ""
    message = (
        r"t\.csv has 7 missing values: 'temperature' in row 3; 'pulse' in rows 1, 4, 6, 8, 10 and 1 more\. "
        r"Fill them in, leave those series out, or pass missing=\"keep\""
    )
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path / "t.csv", rows))


@pytest.mark.parametrize("form", [".jsonl", ".parquet"])
@pytest.mark.parametrize("cell", [None, math.nan])
def test_missing_values_of_other_forms_are_reported_too(tmp_path: Path, form: str, cell: float | None) -> None:
    with pytest.raises(ValueError, match="has 1 missing value: 'pulse' in row 2"):
        read(write(tmp_path / f"t{form}", [LONG[0], {**LONG[1], "pulse": cell}, *LONG[2:]]))


def test_words_for_missing_values_are_names_among_words_only() -> None:
    assert as_names(["none", "?", "fault", "NULL"]) == ["none", "?", "fault", "NULL"]
    assert as_names(["fault", "", "NA", "nan", " ", "N/A", math.nan, None]) == ["fault"] + [None] * 7
    assert as_names([1, "?", "none", "2"]) == ["1", None, None, "2"]
    assert as_names(["none", "?"], known=("fault", "none")) == ["none", None]


def test_an_underscore_is_no_part_of_a_number(tmp_path: Path) -> None:
    rows = [
        {"sequence": "a", "x": 1, "code": "1_1", "label": "1_1"},
        {"sequence": "b", "x": 2, "code": "1_2", "label": "11"},
    ]
    data = read(write(tmp_path / "t.csv", rows), layout="long")
    assert data.feature_names == ("x", "code=1_1", "code=1_2")
    assert data.class_names == ("11", "1_1")
    with pytest.raises(ValueError, match=r"has '1_1' as 'code' in row 1; expected a number or an ISO date"):
        read(write(tmp_path / "t.csv", rows), layout="long", time="code")
