from __future__ import annotations

import csv
import json
import math
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, SequenceRegressor, STTauGRU, load, predict
from sttau.data import SequenceDataset, encode, read
from sttau.errors import DataError
from sttau.training import fit

LONG: list[dict[str, Any]] = [
    {"sequence": "b", "time": 2, "temperature": 20.5, "label": "well", "pulse": 60},
    {"sequence": "a", "time": 10, "temperature": 39.5, "label": "ill", "pulse": 100},
    {"sequence": "b", "time": 1, "temperature": 20.0, "label": "well", "pulse": 61},
    {"sequence": "a", "time": 9, "temperature": 39.0, "label": "ill", "pulse": 99},
    {"sequence": "b", "time": 3, "temperature": 21.0, "label": "well", "pulse": 62},
]
TEXTS: list[dict[str, Any]] = [
    {"text": "A fine, fine film", "label": "good"},
    {"text": 'dull, "very" dull\nfilm', "label": "bad"},
    {"text": "fine", "label": "good"},
]
FORMS = [".csv", ".tsv", ".jsonl", ".parquet"]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            table.writeheader()
            table.writerows(rows)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def same(one: SequenceDataset, two: SequenceDataset) -> bool:
    return (
        torch.equal(one.inputs, two.inputs)
        and torch.equal(one.lengths, two.lengths)
        and torch.equal(one.labels, two.labels)
        and (one.class_names, one.feature_names, one.vocabulary, one.ids)
        == (two.class_names, two.feature_names, two.vocabulary, two.ids)
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_long_table_becomes_padded_sequences_in_the_order_of_time(tmp_path: Path, form: str) -> None:
    data = read(write(tmp_path / f"fever{form}", LONG))
    assert data.inputs.tolist() == [
        [[20.0, 61.0], [20.5, 60.0], [21.0, 62.0]],
        [[39.0, 99.0], [39.5, 100.0], [0.0, 0.0]],
    ]
    assert data.lengths.tolist() == [3, 2]
    assert data.class_names == ("ill", "well")
    assert data.labels.tolist() == [1, 0]
    assert data.feature_names == ("temperature", "pulse")
    assert data.ids == ("b", "a")
    assert (data.name, data.split) == ("fever", "train")
    assert "5 rows, SHA-256" in data.provenance


@pytest.mark.parametrize("form", FORMS)
def test_texts_become_token_ids(tmp_path: Path, form: str) -> None:
    data = read(write(tmp_path / f"reviews{form}", TEXTS))
    assert data.vocabulary is not None
    words = [
        [data.vocabulary[token] for token in row[:length]]
        for row, length in zip(data.inputs.tolist(), data.lengths.tolist(), strict=True)
    ]
    assert words[0] == ["a", "fine", ",", "fine", "film"]
    assert words[1] == ["dull", ",", '"', "very", '"', "dull", "film"]
    assert data.class_names == ("bad", "good")
    assert data.labels.tolist() == [1, 0, 1]
    assert data.ids == ("1", "2", "3")


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


def test_a_saved_model_reads_new_files_and_typed_sentences(tmp_path: Path) -> None:
    train = read(write(tmp_path / "train.csv", TEXTS * 4))
    assert train.vocabulary is not None
    model = SequenceClassifier(STTauGRU(8, 16, num_states=3), 2, nn.Embedding(len(train.vocabulary), 8))
    fit(model, train.inputs, train.labels, train.lengths, updates=60, learning_rate=0.02)
    model.set_metadata(train)
    model = load(model.save(tmp_path / "model.safetensors"))
    new = read(write(tmp_path / "new.csv", [{"text": "a FINE thing"}, {"text": "dull dull"}]), like=model)
    p = predict(model, new.inputs, new.lengths)
    assert [new.class_names[label] for label in p.label.tolist()] == ["good", "bad"]
    typed = predict(model, *encode("a fine thing", model.vocabulary))
    assert torch.equal(typed.mean[0], predict(model, new.inputs[:1, :3], new.lengths[:1]).mean[0])


def test_a_saved_model_reads_new_sequences_in_its_own_order_of_features(tmp_path: Path) -> None:
    train = read(write(tmp_path / "train.csv", LONG))
    model = SequenceClassifier(STTauGRU(2, 8, num_states=3), 2)
    model.set_metadata(train)
    model = load(model.save(tmp_path / "model.safetensors"))
    turned = write(tmp_path / "new.jsonl", [dict(reversed(row.items())) for row in LONG])
    assert same(read(turned, like=model), train)


def test_numbers_are_read_for_a_regressor(tmp_path: Path) -> None:
    rows = [{**row, "label": {"a": 1.5, "b": -2}[row["sequence"]]} for row in LONG]
    train = read(write(tmp_path / "train.csv", rows), task="regression")
    assert train.labels.tolist() == [-2.0, 1.5]
    assert train.class_names == ()
    model = SequenceRegressor(STTauGRU(2, 8, num_states=3))
    fit(model, train.inputs, train.labels, train.lengths, updates=2)
    model.set_metadata(train)
    new = read(write(tmp_path / "new.csv", [{**row, "label": ""} for row in rows]), like=model)
    assert all(map(math.isnan, new.labels.tolist()))
    assert torch.equal(new.inputs, train.inputs)


@pytest.mark.parametrize("form", [".csv", ".jsonl", ".parquet"])
def test_class_numbers_and_names_are_the_same_in_every_form(tmp_path: Path, form: str) -> None:
    rows = [{"sequence": row, "x": 0.5, "label": label} for row, label in enumerate([10, 9, 2, 10])]
    data = read(write(tmp_path / f"numbers{form}", rows), layout="long")
    assert data.class_names == ("2", "9", "10")
    assert data.labels.tolist() == [2, 1, 0, 2]
    assert data.ids == ("0", "1", "2", "3")


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


def test_without_times_rows_keep_their_order_and_columns_can_be_named(tmp_path: Path) -> None:
    rows = [{"patient": "p", "mv": x, "who": "nurse", "state": "ok"} for x in (3, 1, 2)]
    rows.append({"patient": "q", "mv": 0, "who": "nurse", "state": "ko"})
    data = read(write(tmp_path / "t.csv", rows), id="patient", target="state", features=["mv"], split="validation")
    assert data.inputs[0, :, 0].tolist() == [3.0, 1.0, 2.0]
    assert data.split == "validation"


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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"sequence,x,label\n1,2,3\n4,5\n", r"t\.csv has 2 cells in line 3, but 3 columns"),
        ("t.csv", b"x,x\n1,2\n", "has more than one column 'x'"),
        ("t.csv", b"sequence,x,label\n", "holds no rows"),
        ("t.csv", b"", "holds no rows"),
        ("t.csv", "text,label\ncaf\u00e9,1\n".encode("latin-1"), "is not text in UTF-8"),
        ("t.jsonl", b'{"x": 1}\n\n{"x": \n', "has no valid JSON in row 2"),
        ("t.jsonl", b"[1, 2]\n", "has a list in row 1; expected an object"),
        ("t.parquet", b"PAR1 and then nothing", "cannot be read as Parquet"),
        ("t.npz", b"PK nothing", r"cannot be read as a \.npz"),
        ("t.xlsx", b"", r"must end in \.csv, \.tsv, \.jsonl, \.parquet, \.txt or \.npz"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(path)


def test_a_file_of_a_spreadsheet_with_its_mark_and_line_ends_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffsequence,x,label\r\n1,2,u\r\n\r\n2,3,v\r\n".encode())
    assert read(path, layout="long").inputs[:, 0, 0].tolist() == [2.0, 3.0]


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


def test_without_pyarrow_the_extra_is_named_and_all_else_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write(tmp_path / f"t{form}", LONG) for form in FORMS]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "sttau\[parquet\]"'):
        read(paths[-1])
    assert all(len(read(path)) == 2 for path in paths[:-1])


def test_files_that_grow_when_they_are_read_are_refused(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "t.parquet"
    columns = {"id": np.zeros(200_000, np.int8), "x": np.zeros(200_000), "label": np.zeros(200_000, np.int8)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match=r"t\.parquet would take .* \(its columns\).*max_bytes="):
        read(path, max_bytes=1 << 20)
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(f'{{"k{number}": 1}}' for number in range(5000)), "utf-8")
    with pytest.raises(DataError, match=r"t\.jsonl has 5,000 different keys in 5,000 rows"):
        read(path)


# -- arrays ------------------------------------------------------------------------------------------------------------


def test_arrays_are_read_with_all_that_describes_them(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    inputs = np.arange(12, dtype=np.float64).reshape(2, 3, 2)
    inputs[1, 2] = np.nan  # beyond the length: does not count
    np.savez(
        path,
        inputs=inputs,
        lengths=[3, 2],
        labels=[1, 0],
        class_names=["u", "v"],
        feature_names=["x", "y"],
        ids=["p", "q"],
    )
    data = read(path)
    assert data.inputs.dtype == torch.float32
    assert data.inputs[1].tolist() == [[6.0, 7.0], [8.0, 9.0], [0.0, 0.0]]
    assert (data.class_names, data.feature_names, data.ids) == (("u", "v"), ("x", "y"), ("p", "q"))
    assert same(data, read(path, like=data))
    np.savez(tmp_path / "new.npz", inputs=inputs, lengths=[3, 2])
    assert read(tmp_path / "new.npz", like=data).labels.tolist() == [-1, -1]


def test_arrays_of_tokens_names_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, inputs=np.array([[1, 2], [2, 1]]), labels=np.array(["v", "u"]), vocabulary=["a", "b", "c"])
    data = read(path)
    assert (data.inputs.dtype, data.labels.tolist(), data.class_names) == (torch.int32, [1, 0], ("u", "v"))
    assert data.vocabulary == ("a", "b", "c")
    np.savez(path, inputs=np.zeros((2, 3, 1)), labels=[0.5, 1.5])
    assert read(path).labels.tolist() == [0.5, 1.5]
    np.savez(path, inputs=np.zeros((2, 3, 1)), labels=[0, 2])
    assert read(path).class_names == ("0", "2")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": [1]}, "has no array 'inputs'; it has x"),
        ({"inputs": np.zeros(6)}, r"inputs of shape \(6,\) and type float64"),
        ({"inputs": np.zeros((2, 3, 1)), "lengths": [3, 4]}, "must have 2 integer lengths from 1 to 3"),
        ({"inputs": np.zeros((2, 3, 1)), "lengths": [3]}, "must have 2 integer lengths from 1 to 3"),
        ({"inputs": np.array([[[0.0]], [[np.nan]]])}, "has missing or infinite values, .* in row 2 of inputs"),
        ({"inputs": np.zeros((2, 3, 1))}, "has no targets, which training needs; in a .npz they are called 'labels'"),
        ({"inputs": np.zeros((2, 3, 1)), "labels": [1]}, r"labels of shape \(1,\)"),
        ({"inputs": np.zeros((2, 3, 1)), "labels": [0, 5], "class_names": ["u", "v"]}, "has label 5 in row 2"),
        ({"inputs": np.zeros((2, 3, 1)), "labels": [0, -1], "class_names": ["u", "v"]}, "has label -1 in row 2"),
        ({"inputs": np.array([object()])}, r"cannot be read as a \.npz of plain arrays"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message):
        read(path)


def test_arrays_that_differ_from_training_are_refused(tmp_path: Path) -> None:
    train = read(write(tmp_path / "t.csv", LONG))
    path = tmp_path / "t.npz"
    np.savez(path, inputs=np.zeros((1, 2, 3)))
    with pytest.raises(ValueError, match="has 3 features per step, but like has 2"):
        read(path, like=train)
    np.savez(path, inputs=np.zeros((1, 2, 2)), feature_names=["pulse", "temperature"])
    with pytest.raises(ValueError, match="has other feature names than like"):
        read(path, like=train)


# -- damage ------------------------------------------------------------------------------------------------------------


def damage(content: bytes, random: np.random.Generator) -> bytes:
    """Change, insert, repeat or remove a few bytes."""
    nasty = [
        b"nan",
        b"1e999",
        b"\xff",
        b"\x00",
        b'"',
        b";",
        b"\n",
        b"[" * 3000,
        b"9" * 5000,
        b"1e39",
        b"9999-12-31T23-23:59",
    ]
    for _ in range(int(random.integers(1, 4))):
        place, length = int(random.integers(len(content) + 1)), int(random.integers(1, 20))
        part = [nasty[random.integers(len(nasty))], random.bytes(1), content[:length], b""][random.integers(4)]
        content = content[:place] + part + content[place + (0 if part else length) :]
    return content


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("form", [*FORMS, ".npz", ".txt"])
def test_damaged_files_are_read_or_refused_by_errors_of_the_library(tmp_path: Path, form: str) -> None:
    wide = [{"id": str(row), "label": row % 3, **{f"x{step}": step * row / 2 for step in range(5)}} for row in range(5)]
    path = tmp_path / f"t{form}"
    originals = [write(path, rows).read_bytes() for rows in (LONG, TEXTS, wide)] if form in FORMS else []
    if form == ".npz":
        np.savez_compressed(path, inputs=np.ones((2, 3, 2)), lengths=[3, 2], labels=[1, 2], ids=["p", "q"])
        originals = [path.read_bytes()]
    elif form == ".txt":
        originals = [b"ab\taccept\n\treject\nb\taccept\n"]
    random = np.random.default_rng(0)
    outcomes = set()
    for original in originals:
        path.write_bytes(original)
        like = read(path)
        for _ in range(40):
            path.write_bytes(damage(original, random))
            for known in (None, like):
                try:
                    read(path, like=known)
                    outcomes.add("read")
                except DataError as error:
                    outcomes.add("refused" if path.name in str(error) else f"no name of the file: {error}")
    assert outcomes - {"read"} == {"refused"}
