from __future__ import annotations

from pathlib import Path

import pytest

from sttau import SequenceRegressor, STTauGRU, load
from sttau.data import SequenceDataset, read, read_chunks
from sttau.errors import DataError


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("time", ["+nan", "nan", "inf", "-inf", "1e999"])
def test_a_time_that_is_no_number_cannot_scramble_the_order(tmp_path: Path, time: str) -> None:
    with pytest.raises(DataError, match=r"t\.csv has .*'t' in row 2"):
        read(write(tmp_path, f"id,t,x,label\na,1,1,u\na,{time},2,u\nb,1,3,v\n"))


def test_nanoseconds_are_told_apart(tmp_path: Path) -> None:
    start = 1_700_000_000_000_000_000
    data = read(write(tmp_path, f"id,t,x,label\na,{start + 1},1,u\na,{start},2,u\nb,1,3,v\n"))
    assert data.inputs[0, :, 0].tolist() == [2.0, 1.0]


def test_a_saved_model_names_the_columns_of_a_long_table(tmp_path: Path) -> None:
    path = write(tmp_path, "patient,day,ward,x,score\na,2,n,1,0.5\na,1,s,2,0.5\nb,1,n,3,1.5\n")
    train = read(path, id="patient", time="day", target="score", missing="keep")
    model = SequenceRegressor(STTauGRU(3, 8, num_states=3))
    model.set_metadata(train)
    model = load(model.save(tmp_path / "model.safetensors"))
    assert model.schema == train.schema
    new = read(write(tmp_path, "x,ward,day,patient,other\n,s,1,c,q\n7,n,0,c,q\n", "new.csv"), like=model)
    assert new.feature_names == ("ward=n", "ward=s", "x")
    assert new.inputs[0, :, :2].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert new.inputs[0, :, 2].isnan().tolist() == [False, True]


def test_padding_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    rows = [f"long,{step},u" for step in range(3000)] + [f"{number},1,v" for number in range(3000)]
    path = write(tmp_path, "\n".join(["id,x,label", *rows]))
    with pytest.raises(DataError, match=r"series padded to 3,000 steps.*max_bytes="):
        read(path, features=["x"], max_bytes=1 << 20)


@pytest.mark.parametrize("way", ["whole", "chunks", "mapped", "folder"])
def test_times_of_training_are_not_silently_replaced_by_the_order_of_the_file(tmp_path: Path, way: str) -> None:
    train = read(write(tmp_path, "id,t,x,label\na,2,1,u\na,1,2,u\nb,1,3,v\n"))

    def read_new(text: str, time: str | None = None) -> SequenceDataset:
        (tmp_path / "new").mkdir(exist_ok=True)
        path = write(tmp_path / "new", text)
        if way == "chunks":
            return next(read_chunks(path, like=train, time=time))
        source = path.parent if way == "folder" else path
        return read(source, like=train, time=time, memory_map=tmp_path / "maps" if way == "mapped" else None)

    renamed = "id,when,x\nc,2,5\nc,1,6\n"
    with pytest.raises(DataError, match=r"has no column 't', which .* it has id, when, x\. .* time= \(--time\)"):
        read_new(renamed)
    assert read_new(renamed, time="when").inputs[0, :, 0].tolist() == [6.0, 5.0]
    assert read_new("id,x\nc,5\nd,6\n").inputs[0].tolist() == [[5.0]]  # one row has no order
