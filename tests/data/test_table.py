from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, SequenceRegressor, STTauGRU, load, predict
from sttau.data import encode, read
from sttau.errors import DataError
from sttau.training import fit
from tests.data.tables import FORMS, LONG, TEXTS, same, write


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


def test_without_times_rows_keep_their_order_and_columns_can_be_named(tmp_path: Path) -> None:
    rows = [{"patient": "p", "mv": x, "who": "nurse", "state": "ok"} for x in (3, 1, 2)]
    rows.append({"patient": "q", "mv": 0, "who": "nurse", "state": "ko"})
    data = read(write(tmp_path / "t.csv", rows), id="patient", target="state", features=["mv"], split="validation")
    assert data.inputs[0, :, 0].tolist() == [3.0, 1.0, 2.0]
    assert data.split == "validation"


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
