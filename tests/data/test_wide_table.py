from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, load
from sttau.data import Schema, SequenceDataset, read, read_chunks
from sttau.data.wide_table import order_columns
from sttau.errors import DataError


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_a_wide_table_is_one_series_per_row_and_never_series_of_one_step(tmp_path: Path) -> None:
    data = read(write(tmp_path, "label,x2,x10,x1\nup,2,10,1\ndown,4,5,3\n"))
    assert data.inputs[:, :, 0].tolist() == [[1.0, 2.0, 10.0], [3.0, 4.0, 5.0]]  # by number, not by the alphabet
    assert data.lengths.tolist() == [3, 3]
    assert data.feature_names == ("x",)
    assert data.schema is not None
    assert data.schema.layout == "wide"
    with_ids = read(write(tmp_path, "id,label,x0,x1,x2\nanna,up,1,2,3\nben,down,4,5,6\n"))
    assert (with_ids.ids, tuple(with_ids.inputs.shape)) == (("anna", "ben"), (2, 3, 1))


def test_empty_cells_at_the_end_make_a_shorter_series_and_others_are_missing(tmp_path: Path) -> None:
    path = write(tmp_path, "label,0,1,2,3\nup,1,2,,\ndown,4,,6,7\n")
    with pytest.raises(DataError, match=r"t\.csv has 1 missing value: '1' in row 2\."):
        read(path)
    data = read(path, missing="keep")
    assert data.lengths.tolist() == [2, 4]
    assert data.inputs[0, :, 0].tolist() == [1.0, 2.0, 0.0, 0.0]
    assert data.inputs[1, :, 0].isnan().tolist() == [False, True, False, False]
    with pytest.raises(DataError, match="has no values in row 2; leave such rows out"):
        read(write(tmp_path, "label,0,1,2,3\nup,1,2,,\ndown,,,,\n"))


def test_several_features_are_told_by_their_names(tmp_path: Path) -> None:
    data = read(write(tmp_path, "hr_0,hr_1,hr_2,bp_0,bp_1,bp_2,label\n1,2,3,7,8,9,u\n4,5,6,1,2,,v\n"), missing="keep")
    assert data.feature_names == ("hr", "bp")
    assert data.inputs[0].tolist() == [[1.0, 7.0], [2.0, 8.0], [3.0, 9.0]]
    assert data.lengths.tolist() == [3, 3]
    assert data.inputs[1, 2].isnan().tolist() == [False, True]


def test_a_saved_model_reads_a_wide_table_without_naming_columns(tmp_path: Path) -> None:
    train = read(write(tmp_path, "kind,who,x0,x1,x2\nu,a,1,2,3\nv,b,4,5,6\n"), target="kind", id="who")
    model = SequenceClassifier(nn.LSTM(1, 4), 2)
    model.set_metadata(train)
    model = load(model.save(tmp_path / "model.safetensors"))
    assert model.schema == train.schema
    new = read(write(tmp_path, "who,note,x1,x0,x2,x3,age\nc,hm,2,1,3,4,77\n", "new.csv"), like=model)
    assert new.inputs[0, :, 0].tolist() == [1.0, 2.0, 3.0, 4.0]  # longer than in training; other columns are ignored
    assert (new.ids, new.labels.tolist()) == (("c",), [-1])


def test_steps_without_numbers_are_in_the_order_of_the_file_and_needed_again(tmp_path: Path) -> None:
    months = "jan,feb,mar,apr,may,jun,jul,aug"
    train = read(write(tmp_path, f"label,{months}\nu,1,2,3,4,5,6,7,8\nv,8,7,6,5,4,3,2,1\n"))
    assert train.schema is not None
    assert train.schema.steps == tuple(months.split(","))
    new = read(write(tmp_path, "aug,jul,jun,may,apr,mar,feb,jan,age\n8,7,6,5,4,3,2,1,99\n", "new.csv"), like=train)
    assert torch.equal(new.inputs, train.inputs[:1])
    with pytest.raises(DataError, match=r"new\.csv has no column 'aug' for a step"):
        read(write(tmp_path, "jan,feb,mar,apr,may,jun,jul\n1,2,3,4,5,6,7\n", "new.csv"), like=train)


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["2024-01-02", "2023-12-31", "2024-01-01"], ["2023-12-31", "2024-01-01", "2024-01-02"]),
        (["0.5", "0.25", "10"], ["0.25", "0.5", "10"]),
        (["t1", "t3", "t2"], ["t1", "t2", "t3"]),
        (["jan", "feb"], ["jan", "feb"]),
    ],
)
def test_names_that_are_numbers_or_dates_order_the_steps(names: list[str], order: list[str]) -> None:
    assert list(order_columns("t.csv", names).columns[0]) == order


def test_columns_that_are_no_steps_are_not_taken_for_steps(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="numbered steps x0, x1, x2 and the column 'age', which is none of them"):
        read(write(tmp_path, "label,x0,x1,x2,age\nu,1,2,3,50\nv,4,5,6,60\n"))
    with pytest.raises(DataError, match="has 3 steps of 'x' and 2 of 'y'"):
        read(write(tmp_path, "label,x0,x1,x2,y0,y1\nu,1,2,3,4,5\nv,1,2,3,4,5\n"))
    with pytest.warns(UserWarning, match="column 'note' holds text and is not used"):
        data = read(write(tmp_path, "label,x0,x1,x2,note\nu,1,2,3,hm\nv,4,5,6,oh\n"))
    assert data.inputs.shape == (2, 3, 1)
    with pytest.raises(DataError, match="has 'fast' as 'x1' in row 2; expected a number"):
        read(write(tmp_path, "label,x0,x1,x2\nu,1,2,3\nv,4,fast,6\nv,4,3,6\n"))


@pytest.mark.parametrize("read_new", [read, lambda path, like: next(read_chunks(path, like=like))])
@pytest.mark.parametrize(
    ("train", "new", "lacking"),
    [
        ("t0,t1,t2,t3", "t1,t2,t3", "t0"),
        ("t0,t1,t2,t3", "t0,t3,t4", "t1, t2"),
        ("t0,t1,t2,t3", "t8,t9", "t0, t1, t2, t3, t4 …"),
        ("x_00,x_01,x_02,y_00,y_01,y_02", "x_00,x_02,y_00,y_02", "x_01"),
        ("1,2,3", "2,3,4", "1"),
        ("t0,t5,t10", "t0,t10", "t5"),
        ("1990,1991,1992", "2000,2002", "2001"),
        ("t0,t1,t2,t3", "t0,t1", ""),
        ("t0,t1,t2", "t2,t1,t0,t3", ""),
        ("1990,1991,1992", "1991,1992,1993", ""),
        ("2024-01-01,2024-01-02,2024-01-03", "2025-01-02,2025-01-04", ""),
    ],
)
def test_steps_are_not_shifted_by_a_missing_column(
    tmp_path: Path, read_new: Callable[..., SequenceDataset], train: str, new: str, lacking: str
) -> None:
    def rows(names: str, count: int) -> str:
        return "".join(
            ",".join(map(str, range(row, row + len(names.split(","))))) + f",{row}\n" for row in range(count)
        )

    known = read(write(tmp_path, f"{train},label\n{rows(train, 2)}"))
    assert known.schema is not None
    known = replace(known, schema=Schema.from_dict(json.loads(json.dumps(known.schema.to_dict()))))
    path = write(tmp_path, f"{new},label\n{rows(new, 1)}", "new.csv")
    if lacking:
        with pytest.raises(DataError, match=rf"new\.csv lacks the steps {re.escape(lacking)} of training"):
            read_new(path, like=known)
    else:
        data = read_new(path, like=known)
        assert data.inputs.shape[1] == len(new.split(","))
        assert data.schema == known.schema


def test_a_step_before_those_of_training_is_refused(tmp_path: Path) -> None:
    train = read(write(tmp_path, "t1,t2,t3,label\n1,2,3,u\n2,3,4,v\n"))
    with pytest.raises(DataError, match=r"new\.csv has the step 't0', which training had not"):
        read(write(tmp_path, "t0,t1,t2,t3\n0,1,2,3\n", "new.csv"), like=train)
