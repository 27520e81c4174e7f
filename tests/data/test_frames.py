from __future__ import annotations

import sys
from datetime import datetime
from types import ModuleType
from typing import Any

import pytest
import torch

from sttau.data import SequenceDataset, read
from sttau.errors import DataError

ROWS: dict[str, list[Any]] = {
    "id": ["b", "a", "b", "a"],
    "time": [datetime(2024, 1, day) for day in (2, 1, 1, 2)],
    "x": [1.5, 2.0, 3.5, 4.0],
    "n": [1, 2, 3, 5],
    "color": ["red", "blue", "red", "red"],
    "label": [True, False, True, False],
}


def check(data: SequenceDataset) -> None:
    assert data.ids == ("b", "a")
    assert data.feature_names == ("x", "n", "color=blue", "color=red")
    assert data.inputs[0].tolist() == [[3.5, 3.0, 0.0, 1.0], [1.5, 1.0, 0.0, 1.0]]
    assert (data.class_names, data.labels.tolist()) == (("False", "True"), [1, 0])
    assert data.name == "frame"


def test_a_frame_of_pandas_is_read_as_a_file_is() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    check(read(frame))
    check(read(frame.astype({"color": "category", "n": "Int64"})))
    indexed = read(frame.set_index(["id", "time"]))  # as in sktime
    check(indexed)
    wide = pandas.DataFrame([[0.5, 1.0, 2.0], [1.0, 2.0, None]]).assign(
        label=["u", "v"]
    )  # names of columns are numbers
    data = read(wide)
    assert data.lengths.tolist() == [3, 2]
    gaps = frame.assign(n=pandas.array([1, None, 3, 5], dtype="Int64"))
    with pytest.raises(DataError, match="frame has 1 missing value: 'n' in row 2"):
        read(gaps)
    assert int(read(gaps, missing="keep").inputs.isnan().sum()) == 1
    with pytest.raises(DataError, match="frame has no 'time' in row 1"):
        read(frame.assign(time=[pandas.NaT, *frame.time[1:]]))


def test_a_table_of_pyarrow_is_read_as_a_file_is() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    check(read(pyarrow.table(ROWS)))


def stand_in(package: str, **members: Any) -> Any:
    """An object whose class says that it comes from a package that need not be installed."""
    return type("Frame", (), {"__module__": f"{package}.frame", **members})()


def test_polars_and_datasets_are_read_by_their_interfaces() -> None:
    """Stand-ins with the methods that are called: the libraries are no dependency of the tests."""
    names = list(ROWS)

    class Series(list[Any]):
        def to_list(self) -> list[Any]:
            return list(self)

    polars = stand_in(
        "polars", columns=names, to_series=lambda self, place: Series(list(ROWS[names[place]])), __len__=lambda self: 4
    )
    check(read(polars))
    lazy = stand_in("polars", columns=names, collect=lambda self: polars)
    check(read(lazy))
    hugging_face = stand_in(
        "datasets", column_names=names, __getitem__=lambda self, name: ROWS[name], __len__=lambda self: 4
    )
    check(read(hugging_face))
    with pytest.raises(TypeError, match=r"pass one Dataset, such as data\['train'\]"):
        read(stand_in("datasets", column_names={"train": names}))


def test_what_is_no_frame_is_refused_with_the_remedy() -> None:
    with pytest.raises(TypeError, match=r"cannot read a Tensor; .* For arrays call sttau\.data\.from_arrays"):
        read(torch.zeros(2, 3))


def test_frames_are_read_without_importing_their_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pandas", "polars", "datasets", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, ModuleType("empty"))
    frame = stand_in("datasets", column_names=list(ROWS), __getitem__=lambda self, n: ROWS[n], __len__=lambda self: 4)
    check(read(frame))
