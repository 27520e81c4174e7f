from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier
from sttau.data import read
from tests.data.tables import FORMS, LONG, TEXTS, same, write


@pytest.mark.parametrize("form", FORMS)
def test_the_same_file_works_for_training_and_prediction_with_or_without_labels(tmp_path: Path, form: str) -> None:
    train = read(write(tmp_path / f"train{form}", LONG))
    assert same(train, read(tmp_path / f"train{form}", like=train))
    other = [{"note": "x", "pulse": row["pulse"], **row} for row in LONG]
    for row in other:
        del row["label"]
    new = read(write(tmp_path / f"new{form}", other), like=train)  # other columns, another order, no labels
    assert torch.equal(new.inputs, train.inputs)
    assert new.labels.tolist() == [-1, -1]
    assert new.class_names == train.class_names
    assert new.split == "test"


def change(row: int, **cells: Any) -> list[dict[str, Any]]:
    return [{**old, **cells} if number == row else old for number, old in enumerate(LONG, 1)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (change(4, pulse="fast"), r"has 'fast' as 'pulse' in row 4; expected a number.*features="),
        (change(4, pulse="inf"), "has inf as 'pulse' in row 4; expected a finite number"),
        (change(3, sequence=""), "has no 'sequence' in row 3"),
        (change(3, time=""), "has no 'time' in row 3"),
        (change(3, time="soon"), "has 'soon' as 'time' in row 3; expected a number or an ISO date"),
        (change(3, time=3), "has the 'time' '3' twice in series 'b': rows 3, 5"),
        (change(3, label="ill"), r"has the 'label' 'ill' and 'well' in series 'b' \(rows 3, 1\)"),
        (change(2, label=""), r"has the 'label' 'ill' and '' in series 'a' \(rows 4, 2\)"),
        ([{**row, "label": ""} for row in LONG], "has no 'label' in rows 3, 4; training needs one"),
        ([{**row, "label": "u"} for row in LONG], "has a single class, 'u'"),
        ([{"time": 1, "x": 2}], "no column identifies the series of a row.*the columns time, x.*id=.*windows"),
        ([{"sequence": 1, "label": 2}] * 2, "has no columns for features; it has sequence, label"),
        ([{"sequence": 1, "x": 2}] * 2, "has no column 'label', which training needs; it has sequence, x.*target="),
        ([{"text": "a", "label": 1}, {"text": " ", "label": 2}], "has no text in row 2"),
    ],
)
def test_what_is_wrong_is_said_with_the_row(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path / "t.csv", rows))


def test_what_prediction_needs_and_does_not_find_is_named(tmp_path: Path) -> None:
    long, texts = write(tmp_path / "long.csv", LONG), write(tmp_path / "texts.csv", TEXTS)
    train = read(long)
    with pytest.raises(
        ValueError, match=r"long\.csv has the 'label' 'odd' in row 3, which training did not: ill, well"
    ):
        read(write(tmp_path / "long.csv", [{**row, "label": "odd"} for row in LONG]), like=train)
    short = [{name: cell for name, cell in row.items() if name != "pulse"} for row in LONG]
    with pytest.raises(ValueError, match="has no column 'pulse' for a feature"):
        read(write(tmp_path / "short.csv", short), like=train)
    with pytest.raises(ValueError, match="has no column that identifies the series of a row; it has text, label"):
        read(texts, like=train)
    with pytest.raises(ValueError, match=r"has no feature names.*model\.set_metadata\(train\)"):
        read(long, like=SequenceClassifier(nn.LSTM(2, 4), 2))
    with pytest.raises(FileNotFoundError, match="no file at"):
        read(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="task must be 'classification' or 'regression', got 'class'"):
        read(long, task="class")  # type: ignore[arg-type]
