from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sttau.data import from_arrays, read
from sttau.data.targets import find_task
from sttau.errors import DataError


def write(folder: Path, labels: list[Any]) -> Path:
    path = folder / "t.csv"
    rows = [f"{number},{step},{label}" for number, label in enumerate(labels) for step in range(2)]
    path.write_text("\n".join(["id,x,kind", *rows]), "utf-8")
    return path


@pytest.mark.parametrize(
    ("cells", "task"),
    [
        (["u", "v"], "classification"),
        ([True, False], "classification"),
        (["1", "2", "2"], "classification"),
        ([1.0, 2.0, None], "classification"),  # integers of a column with gaps
        (["0.5", "1"], "regression"),
        (list(range(20)), "classification"),
        (list(range(21)), "regression"),
    ],
)
def test_the_task_follows_from_the_targets(cells: list[Any], task: str) -> None:
    assert find_task(cells)[0] == task


def test_the_rule_is_said_and_can_be_overruled(tmp_path: Path) -> None:
    path = write(tmp_path, [3, 1, 3])
    data = read(path, target="kind")
    assert (data.class_names, data.labels.tolist()) == (("1", "3"), [1, 0, 1])
    assert "classification: targets are integers, 2 distinct" in data.remarks
    values = read(path, target="kind", task="regression")
    assert (values.class_names, values.labels.tolist()) == ((), [3.0, 1.0, 3.0])
    assert values.schema is not None
    assert values.schema.task == "regression"
    assert read(path, like=values).labels.tolist() == [3.0, 1.0, 3.0]


def test_classes_have_the_same_names_with_and_without_a_decimal_point(tmp_path: Path) -> None:
    train = read(write(tmp_path, ["1.0", "2.0", "10.0"]), target="kind")
    assert train.class_names == ("1", "2", "10")
    assert read(write(tmp_path, ["10", "1"]), like=train).labels.tolist() == [2, 0]


def test_text_is_no_value_for_regression(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has 'u' as 'kind' in row 3; expected a number for regression"):
        read(write(tmp_path, [1.5, "u"]), target="kind", task="regression")


def test_a_class_may_have_the_name_none(tmp_path: Path) -> None:
    train = read(write(tmp_path, ["none", "fault", "none"]), target="kind")
    assert (train.class_names, train.labels.tolist()) == (("fault", "none"), [1, 0, 1])
    assert read(write(tmp_path, ["none", ""]), like=train).labels.tolist() == [1, -1]
    assert read(write(tmp_path, ["none", "null"]), like=train).labels.tolist() == [1, -1]
    assert from_arrays(np.ones((2, 3, 1)), ["None", "fault"]).class_names == ("None", "fault")
    with pytest.raises(DataError, match="has no 'kind' in row 3"):
        read(write(tmp_path, [1, "none", 2]), target="kind")
