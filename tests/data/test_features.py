from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from sttau.data import from_arrays, read
from sttau.data.features import warn_coarse
from sttau.errors import DataError
from tests.data.tables import write as write_rows


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_text_columns_become_one_feature_per_category_and_travel(tmp_path: Path) -> None:
    train = read(write(tmp_path, "id,x,color,label\na,1,red,u\na,2,blue,u\nb,3,red,v\n"))
    assert train.feature_names == ("x", "color=blue", "color=red")
    assert train.inputs[0].tolist() == [[1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    assert train.schema is not None
    assert train.schema.categories == {"color": ("blue", "red")}
    with pytest.warns(UserWarning, match="column 'color' has categories that training had not: green"):
        new = read(write(tmp_path, "id,color,x\nc,green,5\nc,red,6\n", "new.csv"), like=train)
    assert new.inputs[0].tolist() == [[5.0, 0.0, 0.0], [6.0, 0.0, 1.0]]
    assert any("green" in note for note in new.remarks)


def test_missing_values_are_kept_as_nan_if_asked_and_by_what_was_trained_so(tmp_path: Path) -> None:
    path = write(tmp_path, "id,x,color,label\na,,red,u\na,2,,u\nb,3,blue,v\n")
    with pytest.raises(DataError, match=r"has 2 missing values: 'x' in row 1; 'color' in row 2\. .*missing=.keep."):
        read(path)
    data = read(path, missing="keep")
    assert data.inputs[0].isnan().tolist() == [[True, False, False], [False, True, True]]
    assert int(data.inputs[1].isnan().sum()) == 0  # padding is zero
    assert int(read(path, like=data).inputs.isnan().sum()) == 3


def test_a_column_of_numbers_with_a_slip_is_not_a_category(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has 'fast' as 'x' in row 2; expected a number"):
        read(write(tmp_path, "id,x,label\na,1,u\na,fast,u\nb,3,v\n"))
    many = "\n".join(f"a,name {number},u" for number in range(150))
    with pytest.raises(DataError, match=r"has 150 different texts in column 'x'.*id='x'.*text='x'"):
        read(write(tmp_path, f"id,x,label\n{many}\n"))


def test_a_column_is_read_alike_whether_its_texts_come_early_or_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sttau.data.columns._CELLS", 60)
    rows = [f"{number % 5},{number % 7:02d},u" for number in range(60)] + ["b,x,v"] * 70
    data = read(write(tmp_path, "id,code,label\n" + "\n".join(rows)))
    assert data.feature_names == (*(f"code={number:02d}" for number in range(7)), "code=x")


@pytest.mark.parametrize("value", ["1e39", "-1e39", "inf", "1e999"])
def test_numbers_that_float32_cannot_hold_are_refused_with_their_row(tmp_path: Path, value: str) -> None:
    with pytest.raises(DataError, match=r"t\.csv has .* as 'x' in row 2; expected .*other units"):
        read(write(tmp_path, f"id,x,label\na,1,u\na,{value},u\nb,3,v\n"))
    with pytest.raises(DataError, match=r"t\.csv has .* as 'label' in row 3; expected"):
        read(write(tmp_path, f"id,x,label\na,1,1.5\na,2,1.5\nb,3,{value}\n"), task="regression")


def test_dates_are_features_only_if_they_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "id,x,seen,label\na,1,2024-01-01,u\na,2,2024-01-02,u\nb,3,2024-01-03,v\n")
    with pytest.warns(UserWarning, match="column 'seen' holds dates and is not used"):
        assert read(path).feature_names == ("x",)
    data = read(path, features=["seen", "x"])
    assert data.inputs[0].tolist() == [[19723.0, 1.0], [19724.0, 2.0]]  # days since 1970
    assert read(path, like=data).inputs.tolist() == data.inputs.tolist()


def test_a_time_or_a_counter_is_no_feature_without_a_warning(tmp_path: Path) -> None:
    rows = [(name, step, 100 + step, step * step) for name in "ab" for step in range(6)]
    table = "\n".join(f"{name},{t},{n},{x},{name}" for name, t, n, x in rows)
    with pytest.warns(UserWarning, match=r"feature 'row' only counts the steps \(\+1 in each\); use time='row'"):
        data = read(write(tmp_path, f"id,t,row,x,label\n{table}\n"))
    assert data.feature_names == ("row", "x")  # t orders
    with pytest.warns(UserWarning, match="t.csv") as caught:
        data = read(write(tmp_path, f"id,t,row,x,label\n{table}\n"), time="row")
    messages = [str(warning.message) for warning in caught]
    assert any("column 't' is used as a feature, though its name suggests a time" in text for text in messages)
    assert data.summary().count("warning: ") == len(messages)
    read(write(tmp_path, f"id,t,row,x,label\n{table}\n"), features=["x"])


def test_an_index_of_rows_without_a_name_is_ignored_and_said_to_be(tmp_path: Path) -> None:
    data = read(write(tmp_path, ",id,x,label\n0,a,1,u\n1,a,5,u\n2,b,3,v\n"))
    assert data.feature_names == ("x",)
    assert any("first column has no name" in note for note in data.remarks)
    with pytest.raises(DataError, match=r"begins with numbers \(1, 0\.5, 0\.25\).*add a header"):
        read(write(tmp_path, "1,0.5,0.25\n2,0.5,0.75\n"))


def test_text_in_a_column_that_held_numbers_in_training_is_an_error(tmp_path: Path) -> None:
    train = read(write(tmp_path, "id,pressure,label\na,1.5,u\na,2.5,u\nb,3,v\n"))
    new = write(tmp_path, "id,pressure\nc,not a number\n", "new.csv")
    with pytest.raises(DataError, match="'not a number' as 'pressure' in row 1; expected a number"):
        read(new, like=train)


@pytest.mark.parametrize(
    ("offset", "spread", "coarse"),
    [(1.7e9, 100, True), (1.7e9, 1e6, False), (1e5, 0.1, True), (0, 1e-3, False), (1e9, 0, False), (-1.7e9, 100, True)],
)
def test_a_warning_names_values_of_which_float32_loses_much(offset: float, spread: float, coarse: bool) -> None:
    values = offset + spread * np.random.default_rng(0).normal(size=500)
    error = np.std(values.astype(np.float32) - values)
    assert (error > 0.0025 * np.std(values)) == coarse  # a uniform error of a step has a deviation of 0.29 steps
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = warn_coarse("t", "x", [values[:100], np.array([np.nan]), values[100:]])
    assert len(found) == len(caught) == coarse


def test_large_values_cause_a_warning_in_every_layout(tmp_path: Path) -> None:
    start = 1_700_000_000
    rows = [f"s{number},{start + number},{number % 3},{number % 2}" for number in range(20)]
    path = write(tmp_path, "\n".join(["id,clock,x,label", *rows]))
    message = "column 'clock' loses precision: .*subtract an offset"
    with pytest.warns(UserWarning, match=message):
        train = read(path, layout="long")
    assert sum("'clock' loses precision" in remark for remark in train.remarks) == 1
    with pytest.warns(UserWarning, match=message):
        mapped = read(path, layout="long", memory_map=tmp_path / "maps")
    assert mapped.remarks == train.remarks
    with pytest.warns(UserWarning, match=message):
        read(path, layout="long", features=["x"], target="clock", task="regression")
    wide = [f"{start + number},{start + number + 3},{start + number + 5},{number % 2}" for number in range(20)]
    path = write(tmp_path, "\n".join(["t0,t1,t2,label", *wide]), "wide.csv")
    with pytest.warns(UserWarning, match="feature 't' loses precision"):
        train = read(path)
    with pytest.warns(UserWarning, match="feature 't' loses precision"):
        assert read(path, memory_map=tmp_path / "maps").remarks == train.remarks
    with pytest.warns(UserWarning, match="feature 'clock' loses precision"):
        from_arrays(start + np.arange(40.0).reshape(4, 10, 1), [0, 1, 0, 1], feature_names=["clock"])
    with pytest.warns(UserWarning, match="column 'labels' loses precision"):
        from_arrays(np.ones((4, 3, 1)), start + np.arange(4.0), task="regression")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(path, like=train)  # was said of the training data


def test_a_category_may_have_the_name_none(tmp_path: Path) -> None:
    path = write(tmp_path, "id,gas,x,label\na,none,1,u\na,argon,2,u\nb,none,null,v\n")
    train = read(path, missing="keep")
    assert train.feature_names == ("gas=argon", "gas=none", "x")
    assert train.inputs[1, 0].isnan().tolist() == [False, False, True]
    assert read(path, missing="keep", memory_map=tmp_path / "maps").feature_names == train.feature_names
    new = read(write(tmp_path, "id,gas,x\nc,none,1\nc,?,1\n", "new.csv"), like=train)
    assert new.inputs[0, :, 1].tolist()[0] == 1
    assert new.inputs[0, :, 1].isnan().tolist() == [False, True]  # no category of training


def test_booleans_of_training_may_be_words_in_new_data(tmp_path: Path) -> None:
    rows = [{"id": name, "on": on, "x": 1.5, "label": name} for name, on in (("a", True), ("a", False), ("b", True))]
    train = read(write_rows(tmp_path / "t.parquet", rows))
    assert train.feature_names == ("on", "x")
    assert train.inputs[0, :, 0].tolist() == [1.0, 0.0]
    new = read(write_rows(tmp_path / "t.csv", rows), like=train)  # True and False
    assert new.inputs.tolist() == train.inputs.tolist()
    new = read(write(tmp_path, "id,on,x\na, TRUE,1\na,,1\n", "new.csv"), like=train, missing="keep")
    assert new.inputs[0, 0, 0] == 1
    assert new.inputs[0, 1, 0].isnan()
    with pytest.raises(DataError, match="has 'true' as 'on' in row 1; expected a number"):
        read(write(tmp_path, "id,on,x\na,true,1\na,2,1\n", "new.csv"), like=train)
