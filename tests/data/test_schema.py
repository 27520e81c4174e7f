from __future__ import annotations

import json
from pathlib import Path

import pytest

from sttau.data import Schema, from_arrays, read, read_chunks
from sttau.data.schema import find_roles
from sttau.errors import DataError
from tests.data.tables import FORMS, LONG, TEXTS, write


def test_a_schema_survives_a_file() -> None:
    schema = Schema("wide", "who", None, "kind", categories={"sex": ("f", "m")}, task="regression", steps=("a", "b"))
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert Schema.from_dict({"layout": "long", "of a later version": 1}) == Schema("long")


def test_names_that_are_usual_are_found_without_regard_to_case_and_the_first_wins() -> None:
    roles = find_roles("t.csv", ["Timestamp", "t", "Series_ID", "id", "Label", "x"], Schema(), None)
    assert roles.roles == {"id": "id", "time": "t", "target": "Label"}
    named = find_roles("t.csv", ["id", "t", "label"], Schema(target="id"), None)
    assert named.roles == {"time": "t", "target": "id"}


def test_data_that_came_from_no_table_has_no_schema() -> None:
    data = from_arrays([[0.5, 1.0], [2.0, 1.5]], [0, 1])
    assert data.schema is None


def test_a_column_that_is_not_there_is_answered_with_all_columns_of_the_file(tmp_path: Path) -> None:
    texts = write(tmp_path / "t.csv", TEXTS)
    with pytest.raises(DataError, match=r"no column 'comment', named by text=; it has text, label$"):
        read(texts, text="comment")
    with pytest.raises(DataError, match=r"no column 'comment', named by text=; it has text, label$"):
        next(read_chunks(texts, like=read(texts), text="comment"))
    message = r"no column 'lable', named by target=; it has sequence, time, temperature, label, pulse$"
    for form in FORMS:
        path = write(tmp_path / f"long{form}", LONG)
        with pytest.raises(DataError, match=message):
            read(path, features=["pulse"], target="lable")
        with pytest.raises(DataError, match=message):
            read(path, features=["pulse"], target="lable", memory_map=tmp_path / "maps")
