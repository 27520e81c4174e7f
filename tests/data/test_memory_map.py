from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, predict
from sttau.data import SequenceDataset, read
from sttau.errors import DataError
from sttau.training import fit


def write(folder: Path, rows: list[str], header: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return path


def same(one: SequenceDataset, two: SequenceDataset) -> bool:
    names = ("name", "split", "class_names", "feature_names", "ids", "groups", "schema", "provenance", "remarks")
    return all(getattr(one, name) == getattr(two, name) for name in names) and all(
        torch.equal(getattr(one, name), getattr(two, name)) for name in ("inputs", "lengths", "labels")
    )


LONG = [
    f"s{series % 5},{series // 5 * 7 + step},{series % 5},{step**2},{'red' if step % 2 else 'blue'},{series % 5 % 2}"
    for series in range(15)
    for step in range(6, -1, -1)
]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sttau.data.columns._CELLS", 60)


@pytest.mark.usefixtures("small_blocks")
def test_a_mapped_long_table_is_what_is_read_into_memory(tmp_path: Path) -> None:
    path = write(tmp_path, LONG, "id,t,patient,x,color,label")
    whole = read(path, group="patient")
    mapped = read(path, group="patient", memory_map=tmp_path / "maps")
    assert same(whole, mapped)
    file = tmp_path / "maps/t.csv.inputs.npy"
    assert np.array_equal(np.load(file), whole.inputs.numpy())
    assert same(read(path, like=whole), read(path, like=mapped, memory_map=tmp_path / "maps"))
    mapped = read(path, group="patient", memory_map=tmp_path / "maps")
    mapped.inputs[:] = 7
    assert np.array_equal(np.load(file), whole.inputs.numpy())  # the file stays as it was


@pytest.mark.usefixtures("small_blocks")
def test_a_mapped_wide_table_is_what_is_read_into_memory(tmp_path: Path) -> None:
    rows = [
        f"{row % 2},{row},{row + 1},{'' if row % 3 else row},{'' if row % 3 or row % 2 else row}" for row in range(50)
    ]
    path = write(tmp_path, rows, "label,x0,x1,x2,x3")
    assert same(read(path), read(path, memory_map=tmp_path))


@pytest.mark.usefixtures("small_blocks")
def test_faults_are_said_as_without_a_map(tmp_path: Path) -> None:
    header = "id,t,patient,x,color,label"
    for row, message in (
        ("s1,999,1,fast,red,1", "has 'fast' as 'x' in row 106; expected a number"),
        ("s1,999,1,,red,1", "has 1 missing value: 'x' in row 106"),
        ("s1,999,1,1e39,red,1", r"has 1e\+39 as 'x' in row 106"),
        ("s1,999,1,1,red,0", r"has the 'label' '1' and '0' in series 's1' \(rows 14, 106\)"),
        ("s1,1,1,1,red,1", "has the 't' .* twice in series 's1'"),
        ("s1,soon,1,1,red,1", "has 'soon' as 't' in row 106"),
    ):
        path = write(tmp_path, [*LONG, row], header)
        with pytest.raises(DataError, match=message):
            read(path, memory_map=tmp_path)
    texts = write(tmp_path, ["a b,1", "c,0"], "text,label", "texts.csv")
    with pytest.raises(DataError, match=r"texts\.csv holds texts, which are not memory-mapped"):
        read(texts, memory_map=tmp_path)


def test_memory_does_not_grow_with_the_inputs_and_a_model_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sttau.data.columns._CELLS", 5000)

    def peak(series: int) -> tuple[SequenceDataset, int]:
        rows = [f"{row % 2}," + ",".join(str((row * step) % 97) for step in range(100)) for row in range(series)]
        path = write(tmp_path, rows, "label," + ",".join(f"x{step}" for step in range(100)))
        del rows
        tracemalloc.start()
        data = read(path, memory_map=tmp_path)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return data, highest

    small, large = peak(150)[1], peak(900)[1]
    assert large < 1.5 * small
    data, _ = peak(100)
    model = SequenceClassifier(nn.LSTM(1, 4), 2)
    fit(model, data, updates=1)
    assert len(predict(model, data).label) == 100
