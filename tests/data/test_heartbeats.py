from __future__ import annotations

import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sttau.data import SPLITS, heartbeats, load
from sttau.data.heartbeats import DS1, DS2, RECORDS, SYMBOLS, cut_beats, read_csv, read_records
from sttau.data.source import Content, fingerprint

PATIENTS_WITH_PACEMAKER = {102, 104, 107, 217}


@pytest.fixture(scope="module")
def records(files: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of all records."""
    folder = tmp_path_factory.mktemp("mitdb")
    with tarfile.open(files.path("mitbih/mitdb_raw.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def cut(records: Path) -> Content:
    return read_records(records / "100.hea")


def test_counts_are_the_published_ones(files: Any) -> None:
    test = load("bih", "test")
    assert test.labels.bincount().tolist() == [18_118, 556, 1_448, 162, 1_608]
    train, validation = load("bih", "train"), load("bih", "validation")
    both = train.labels.bincount() + validation.labels.bincount()
    assert both.tolist() == [72_471, 2_223, 5_788, 641, 6_431]
    assert all(abs(v - b / 10) < 1 for v, b in zip(validation.labels.bincount().tolist(), both.tolist(), strict=True))


def test_no_beat_is_in_two_parts(files: Any) -> None:
    parts = [load("bih", split).inputs.numpy() for split in SPLITS]
    beats = [set(map(bytes, part.reshape(len(part), -1))) for part in parts]
    assert sum(map(len, beats)) == len(set.union(*beats)) == 109_446


def test_records_cut_by_the_rule_are_the_published_beats_bit_for_bit(files: Any, cut: Content) -> None:
    if not files.real:
        pytest.skip("needs the real records and the real beats; these are generated stand-ins")
    with np.load(files.path("mitbih/kachuee_heartbeat.npz")) as published:
        whole = {
            name: np.concatenate([published[f"{name}_train"], published[f"{name}_test"]])
            for name in ("x", "y", "record", "sample")
        }
    order = np.lexsort((whole["sample"], whole["record"]))
    assert len(order) == 109_446
    assert np.array_equal(np.asarray(cut["x"]).view(np.uint32), whole["x"][order].view(np.uint32))
    for name in ("y", "record", "sample"):
        assert np.array_equal(cut[name], whole[name][order])


def test_physionets_archive_and_a_folder_of_records_give_the_same(records: Path, cut: Content, tmp_path: Path) -> None:
    path = tmp_path / "mit-bih-arrhythmia-database-1.0.0.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(records.iterdir()):
            archive.write(file, f"mit-bih-arrhythmia-database-1.0.0/{file.name}")
        archive.writestr("mit-bih-arrhythmia-database-1.0.0/x_mitdb/100.dat", b"another recording")
        archive.writestr("mit-bih-arrhythmia-database-1.0.0/mitdbdir/intro.htm", b"<html>")
    data = load("bih_inter_patient", "validation", path=path)  # checks the content of all records
    rows = np.isin(cut["record"], heartbeats.VALIDATION)
    assert np.array_equal(data.inputs[:, :, 0], np.asarray(cut["x"])[rows])
    assert np.array_equal(data.labels, np.asarray(cut["y"])[rows])


def test_an_archive_without_all_records_says_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "mit-bih-arrhythmia-database-1.0.0.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("100.hea", b"")
    with pytest.raises(ValueError, match=r"lacks 143 of the 144 files of the records, first 100\.atr"):
        load("bih_inter_patient", "test", path=path)


def test_no_patient_is_in_two_parts_and_none_has_a_pacemaker(files: Any) -> None:
    records = []
    for split in SPLITS:
        ids = load("bih_inter_patient", split).ids
        assert ids is not None
        records.append({int(name.split("/")[0]) for name in ids})
    train, validation, test = records
    assert train | validation == set(DS1)
    assert test == set(DS2)
    assert len(train) + len(validation) + len(test) == 44 == len(set(RECORDS) - PATIENTS_WITH_PACEMAKER)
    assert not (train | validation | test) & PATIENTS_WITH_PACEMAKER
    # 201 and 202 are of one patient; de Chazal et al. have them in DS1 and DS2
    assert 201 in validation
    assert 202 in test


def test_classes_of_the_split_by_patient_are_known(files: Any) -> None:
    if not files.real:
        pytest.skip("counts are those of the real records; these are generated stand-ins")
    counts = [load("bih_inter_patient", split).labels.bincount().tolist() for split in SPLITS]
    assert counts == [[38_104, 709, 2_626, 393, 4], [7_741, 234, 1_162, 22, 4], [44_238, 1_836, 3_221, 388, 7]]


def test_the_two_published_files_give_the_same_arrays_in_any_order_of_their_training_rows(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = np.random.default_rng(0)
    with np.load(files.path("mitbih/kachuee_heartbeat.npz")) as arrays:
        some = {part: source.permutation(len(arrays[f"y_{part}"]))[:1500] for part in ("train", "test")}
        small = {name: arrays[name][some[name[2:]]] for name in ("x_train", "y_train", "x_test", "y_test")}
    np.savez(tmp_path / "kachuee_heartbeat.npz", **small)
    turned = source.permutation(1500)
    for part, rows in (("train", turned), ("test", np.arange(1500))):
        table = np.column_stack([small[f"x_{part}"][rows], small[f"y_{part}"][rows]]).astype(np.float64)
        np.savetxt(tmp_path / f"mitbih_{part}.csv", table, delimiter=",", fmt="%.18e")
    csv = read_csv(tmp_path / "mitbih_train.csv", tmp_path / "mitbih_test.csv")
    compact = heartbeats.read_compact(tmp_path / "kachuee_heartbeat.npz")
    assert fingerprint(csv) == fingerprint(compact)
    for name, value in csv.items():
        assert np.array_equal(value, compact[name])
        assert np.asarray(value).dtype == np.asarray(compact[name]).dtype


@pytest.mark.parametrize("wrong", ["", "counts", "first rows"])
def test_published_files_are_taken_if_what_is_known_of_them_agrees(
    files: Any, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Beats that could not be compared with the originals must not turn the originals away."""
    content: dict[str, Any] = dict(heartbeats.read_compact(files.path("mitbih/kachuee_heartbeat.npz")))
    first = {"x": np.asarray(content["x_test"])[:1000]}
    if files.real:
        assert fingerprint(first) == heartbeats._FIRST_TEST_ROWS
    else:
        monkeypatch.setattr(heartbeats, "_FIRST_TEST_ROWS", fingerprint(first))
    content["x_train"], content["x_test"] = np.array(content["x_train"]), np.array(content["x_test"])
    content["x_train"][5] = 0.25  # a beat that differs
    if wrong == "first rows":
        content["x_test"][999, 186] += 1
    if wrong == "counts":
        content["y_train"] = np.asarray(content["y_train"])[:-1]
    form = replace(heartbeats.PUBLISHED.forms[0], read=lambda *paths: content)
    monkeypatch.setattr(heartbeats, "PUBLISHED", replace(heartbeats.PUBLISHED, forms=(form,)))
    monkeypatch.setenv("STTAU_CACHE", str(tmp_path / "cache"))
    for name in form.files:
        (tmp_path / name).touch()
    if wrong:
        message = {"counts": "which differ from the published counts", "first rows": "first thousand test rows"}[wrong]
        with pytest.raises(ValueError, match=message):
            heartbeats.load_bih("train", tmp_path)
    else:
        assert len(heartbeats.load_bih("train", tmp_path)) == 78_799
        assert "passed all checks that are possible" in caplog.text


def test_training_rows_are_ordered_by_class_then_by_value() -> None:
    x = np.array([[0.5, 1.0], [0.5, 0.25], [0.0, 1.0], [1e-9, 0.0]], dtype=np.float32)
    content = heartbeats._in_order(x, np.array([1, 0, 1, 1], dtype=np.uint8), x, np.zeros(4, dtype=np.uint8))
    assert np.asarray(content["x_train"]).tolist() == [x[1].tolist(), x[2].tolist(), x[3].tolist(), x[0].tolist()]


def test_a_table_with_other_columns_is_refused(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / f"mitbih_{part}.csv").write_text("1,2,3\n")
    with pytest.raises(ValueError, match=r"mitbih_train\.csv has 3 columns, expected 187 values and a class"):
        load("bih", "test", path=tmp_path)


def test_the_rule_by_hand() -> None:
    signal = np.array([5, 0, 0, 9, 0, 0, 7, 0, 0, 1, 0, 0, 3, 0, 0, 2, 0, 0, 4, 0])
    symbols = ["N", "+", "V", "A"]  # annotations that are no beats end a beat, but give none
    beats, classes, samples = cut_beats(signal, np.array([0, 6, 12, 18]), symbols)
    assert classes.tolist() == [0, 2]
    assert samples.tolist() == [0, 12]
    assert beats[0, :4].tolist() == [0.0, 1.0, 0.5, 0.0]  # samples 0 to 6: 5, 9, 7
    assert beats[1, :3].tolist() == [1.0, 0.0, 0.0]  # samples 12 to 17: 3, 2; the record's end is the next annotation
    assert not beats[:, 4:].any()


def test_a_long_beat_is_scaled_before_it_is_cut_and_a_flat_one_is_zero() -> None:
    signal = np.concatenate([np.arange(900), np.full(900, 7)])
    beats, _, _ = cut_beats(signal, np.array([0, 900, 1000, 1799]), ["N", "N", "N", "N"])
    assert 0 < beats[0].max() < 1
    assert not beats[1].any()


def test_every_annotation_symbol_has_one_class() -> None:
    assert "".join(SYMBOLS) == "NLRejAaJSVEF/fQ"
    assert len(RECORDS) == 48


def test_without_wfdb_the_extra_is_named(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "wfdb", None)
    with pytest.raises(ImportError, match=r'pip install "sttau\[ecg\]"'):
        load("bih_inter_patient", "test", path=files.path("mitbih/mitdb_raw.tar.xz"))
