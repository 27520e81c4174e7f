from __future__ import annotations

from pathlib import Path

import pytest

from sttau.data import read
from sttau.errors import DataError


def write(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("id,x,label\na,1,u\na,2,u\nb,3,v\n", "long"),
        ("ID,Time,x,label\na,1,1,u\na,2,2,u\nb,3,3,v\n", "long"),
        ("id,x0,x1,x2,label\na,1,2,3,u\nb,1,2,3,v\n", "wide"),
        ("x0,x1,x2,label\n1,2,3,u\n1,2,3,v\n", "wide"),
        ("date,h0,h1,h2,label\n2024-01-01,1,2,3,u\n2024-01-02,1,2,3,v\n", "wide"),
        ("text,x0,x1,x2,label\nhello,1,2,3,u\nworld,1,2,3,v\n", "text"),
    ],
)
def test_the_layout_follows_from_the_columns(tmp_path: Path, text: str, layout: str) -> None:
    data = read(write(tmp_path, text))
    assert data.schema is not None
    assert data.schema.layout == layout


@pytest.mark.parametrize(
    "text",
    [
        "id,x,y,label\na,1,2,u\nb,1,2,v\n",  # one row per id, but two columns are no series
        "time,x,y,z,label\n1,1,2,3,u\n2,1,2,3,v\n",  # one series of three sensors
        "id,age,height,weight,pulse,label\na,1,2,3,4,u\nb,1,2,3,4,v\n",  # no series at all
    ],
)
def test_a_table_that_could_be_read_in_two_ways_is_not_guessed(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=r"cannot tell the layout: .* Pass .*layout=.wide."):
        read(path)
    assert read(path, layout="wide").inputs.shape[1] >= 2


def test_series_of_one_step_are_read_only_if_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "id,x,y,label\na,1,2,u\nb,1,2,v\n")
    assert read(path, layout="long").inputs.shape == (2, 1, 2)


def test_columns_named_twice_or_not_there_are_said(tmp_path: Path) -> None:
    path = write(tmp_path, "id,x,label\na,1,u\na,2,u\nb,3,v\n")
    with pytest.raises(DataError, match=r"has no column 'who', named by id=; it has id, x, label"):
        read(path, id="who")
    with pytest.raises(DataError, match=r"column 'id' cannot be id= and group= at once"):
        read(path, id="id", group="id")
    with pytest.raises(ValueError, match="layout must be 'long' or 'wide' or 'text' or 'strings', got 'tall'"):
        read(path, layout="tall")  # type: ignore[arg-type]
