"""Heartbeats of the MIT-BIH Arrhythmia Database, five classes: the published split, and one by patient.

``bih`` is the split of Kachuee et al. (2018) that the paper uses. It puts beats of every patient into both parts, which
flatters every method: a network is tested on the very hearts it was trained on. ``bih_inter_patient`` keeps patients
apart, by the records of de Chazal et al. (2004).
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sttau.data.archive import read_members
from sttau.data.dataset import SequenceDataset
from sttau.data.entry import Entry
from sttau.data.source import Array, Content, Form, Source, fingerprint, load_arrays, prepare
from sttau.data.split import hold_out

POINTS = 187
CLASS_NAMES = ("N", "S", "V", "F", "Q")
#: Annotation symbols of MIT-BIH by AAMI EC57 class: normal, supraventricular, ventricular, fusion, unknown or paced
SYMBOLS = {symbol: number for number, symbols in enumerate(("NLRej", "AaJS", "VE", "F", "/fQ")) for symbol in symbols}

#: Records of de Chazal et al. (2004); those of patients with a pacemaker are in neither
DS1 = (101, 106, 108, 109, 112, 114, 115, 116, 118, 119, 122, 124, 201, 203, 205, 207, 208, 209, 215, 220, 223, 230)
DS2 = (100, 103, 105, 111, 113, 117, 121, 123, 200, 202, 210, 212, 213, 214, 219, 221, 222, 228, 231, 232, 233, 234)
PACED = (102, 104, 107, 217)
RECORDS = tuple(sorted(DS1 + DS2 + PACED))
#: Records of DS1 that we validate on. 201 must be among them: it is of the same patient as 202, which is in DS2, so
#: that no patient of the test part is ever trained on.
VALIDATION = (124, 201, 203, 223)

_SEED = 0
_CITE_MITDB = (
    "G. B. Moody, R. G. Mark, The impact of the MIT-BIH Arrhythmia Database, IEEE Eng. Med. Biol. 20(3):45-50, 2001; "
    "A. L. Goldberger et al., PhysioBank, PhysioToolkit, and PhysioNet, Circulation 101(23):e215-e220, 2000"
)


def cut_beats(signal: Array, positions: Array, symbols: list[str]) -> tuple[Array, Array, Array]:
    """Cut a record into beats by the rule that reproduces the published arrays bit for bit.

    A beat begins at its annotation, whatever kind the next ones are, and ends a fifth of the following interval after
    the next one. Every third sample of it is taken and scaled by its own minimum and maximum, then cut or filled with
    zeros to 187 points. The end of the record stands for an annotation after the last; the last gives no beat.

    Args:
        signal: (samples,) channel 0 as the converter wrote it, 360 a second.
        positions: (annotations,) samples that are annotated.
        symbols: Symbol of each annotation.

    Returns:
        Beats (beats, 187) float32, classes (beats,) and samples at which they begin (beats,).

    Example:
        >>> signal = np.arange(45) % 15
        >>> beats, classes, samples = cut_beats(signal, np.array([0, 15, 30]), ["N", "V", "N"])
        >>> beats.shape, classes.tolist(), samples.tolist(), beats[0, :7].tolist()
        ((2, 187), [0, 2], [0, 15], [0.0, 0.25, 0.5, 0.75, 1.0, 0.0, 0.0])
    """
    ends = np.append(positions, len(signal))
    rows = [row for row, symbol in enumerate(symbols[:-1]) if symbol in SYMBOLS]
    beats = np.zeros((len(rows), POINTS), dtype=np.float32)
    for beat, row in zip(beats, rows, strict=True):
        here, following, after = ends[row : row + 3].tolist()
        piece = signal[here : here + int((following - here) + 0.2 * (after - following)) : 3].astype(np.float64)
        low, high = piece.min(), piece.max()
        scaled = (piece - low) / (high - low) if high > low else np.zeros_like(piece)
        beat[: len(scaled)] = scaled[:POINTS]
    classes = np.array([SYMBOLS[symbols[row]] for row in rows], dtype=np.uint8)
    return beats, classes, positions[rows].astype(np.uint32)


@contextmanager
def use_wfdb() -> Iterator[Any]:
    """Give the reader of PhysioNet's files, which is an extra."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # wfdb 4.3 uses what pandas 3.1 advises against
        try:
            import wfdb
        except ImportError as error:
            raise ImportError('the records of PhysioNet are read with wfdb: pip install "sttau[ecg]"') from error
        yield wfdb


def read_records(*files: Path) -> Content:
    """Read the 48 records of PhysioNet with wfdb, from a folder, and cut them into beats."""
    parts: dict[str, list[Array]] = {"x": [], "y": [], "record": [], "sample": []}
    with use_wfdb() as wfdb:
        for record in RECORDS:
            stem = str(files[0].parent / str(record))
            annotations = wfdb.rdann(stem, "atr")
            signal = wfdb.rdrecord(stem, physical=False, channels=[0]).d_signal[:, 0]
            beats, classes, samples = cut_beats(signal, annotations.sample, annotations.symbol)
            numbers = np.full(len(beats), record, dtype=np.uint16)
            for name, part in zip(parts, (beats, classes, numbers, samples), strict=True):
                parts[name].append(part)
    return {name: np.concatenate(part) for name, part in parts.items()}


_RECORD_FILES = tuple(f"{record}.{kind}" for record in RECORDS for kind in ("hea", "dat", "atr"))


def read_record_archive(path: Path) -> Content:
    """Read the records from PhysioNet's archive, or another one that holds them."""
    wanted = set(_RECORD_FILES)
    with use_wfdb(), tempfile.TemporaryDirectory(prefix="sttau-") as folder:
        # the names are ours, so that nothing in the archive decides where a file goes
        for name, content in read_members(path, lambda name: name.name in wanted and "x_mitdb" not in name.parts):
            (Path(folder) / name.name).write_bytes(content)
        missing = sorted(file for file in wanted if not (Path(folder) / file).exists())
        if missing:
            raise ValueError(f"it lacks {len(missing)} of the {len(wanted)} files of the records, first {missing[0]}")
        return read_records(Path(folder) / _RECORD_FILES[0])


def read_compact(path: Path) -> Content:
    """Read the published split from one ``.npz``."""
    arrays = load_arrays(path, ("x_train", "y_train", "x_test", "y_test"))
    return _in_order(*arrays.values())


def read_csv(train: Path, test: Path) -> Content:
    """Read the published split from its two CSV files: 187 values and the class in a row, no header."""
    (x, y), (x_test, y_test) = (_read_beats(path) for path in (train, test))
    return _in_order(x, y, x_test, y_test)


def _read_beats(path: Path) -> tuple[Array, Array]:
    table = np.loadtxt(path, delimiter=",", dtype=np.float32, ndmin=2)
    if table.shape[1] != POINTS + 1:
        raise ValueError(f"{path.name} has {table.shape[1]} columns, expected {POINTS} values and a class")
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.uint8)


def _in_order(x: Array, y: Array, x_test: Array, y_test: Array) -> Content:
    """Training rows by class, then by value: the order they were published in does not survive in every form."""
    # values are not negative, so their big-endian bytes sort as they do
    rows = np.ascontiguousarray(x, dtype=">f4").view(f"V{4 * x.shape[1]}")[:, 0]
    order = np.lexsort((np.argsort(np.argsort(rows, kind="stable"), kind="stable"), y))
    return {"x_train": x[order], "y_train": y[order], "x_test": x_test, "y_test": y_test}


def check_published(content: Content) -> None:
    """Check what is known for certain of the two published files: all classes, and the first thousand test rows.

    The content's checksum is that of beats cut again from the records. It agrees with the published files wherever they
    could be compared, but that was not everywhere (docs/data.md), so it must not turn the original away.
    """
    counts = {part: np.bincount(np.asarray(content[f"y_{part}"]), minlength=5).tolist() for part in ("train", "test")}
    if counts != {"train": [72_471, 2_223, 5_788, 641, 6_431], "test": [18_118, 556, 1_448, 162, 1_608]}:
        raise ValueError(f"the beats of each class are {counts}, which differ from the published counts")
    first = {"x": np.asarray(content["x_test"])[:1000]}
    if fingerprint(first) != _FIRST_TEST_ROWS:
        raise ValueError("the first thousand test rows are not the published ones")


_FIRST_TEST_ROWS = "3dd6303fab26117791a020c794ee89138dfbd73f3f33a219e91cbc7217659b51"

PUBLISHED = Source(
    name="bih",
    title="ECG Heartbeat Categorization Dataset: beats of the MIT-BIH Arrhythmia Database",
    license="MIT-BIH: Open Data Commons Attribution License v1.0; none stated for the cut beats",
    citation="M. Kachuee, S. Fazeli, M. Sarrafzadeh, ECG Heartbeat Classification: A Deep Transferable "
    f"Representation, IEEE ICHI 2018; {_CITE_MITDB}",
    homepage="https://www.kaggle.com/datasets/shayanfazeli/heartbeat",
    sizes={"train": 78_799, "validation": 8_755, "test": 21_892},
    folder="mitbih",
    forms=(
        Form("the two published CSV files", ("mitbih_train.csv", "mitbih_test.csv"), read_csv, check=check_published),
        Form("one compact file", ("kachuee_heartbeat.npz",), read_compact),
    ),
    content="c50de2d8f26c05129d6859285b6c4723cd621ccf38c3a1b2a8e775ee025f5ba7",
    by_hand="The published split lies behind an account: download mitbih_train.csv and mitbih_test.csv of the “ECG "
    "Heartbeat Categorization Dataset” from Kaggle (https://www.kaggle.com/datasets/shayanfazeli/heartbeat), then run "
    "`sttau data get bih --path FOLDER`; bih_inter_patient needs only PhysioNet's open records.",
)

INTER_PATIENT = Source(
    name="bih_inter_patient",
    title="MIT-BIH Arrhythmia Database 1.0.0, beats split by patient",
    license="Open Data Commons Attribution License v1.0",
    citation=f"{_CITE_MITDB}; split: P. de Chazal, M. O'Dwyer, R. B. Reilly, Automatic classification of heartbeats "
    "using ECG morphology and heartbeat interval features, IEEE Trans. Biomed. Eng. 51(7):1196-1206, 2004",
    homepage="https://physionet.org/content/mitdb/1.0.0/",
    sizes={"train": 41_836, "validation": 9_163, "test": 49_690},
    folder="mitbih",
    forms=(
        Form(
            "PhysioNet's archive of records",
            ("mit-bih-arrhythmia-database-1.0.0.zip",),
            read_record_archive,
            urls=("https://physionet.org/static/published-projects/mitdb/mit-bih-arrhythmia-database-1.0.0.zip",),
        ),
        Form("one compact archive of records", ("mitdb_raw.tar.xz",), read_record_archive),
        Form("a folder of records", _RECORD_FILES, read_records),
    ),
    content="e9bda4239d42092ac7dd961a2b4de278dfa94122eef4f12b32382e07540efeec",
)


def load_bih(split: str, path: str | os.PathLike[str] | None = None) -> SequenceDataset:
    """Return beats as 187 steps of one feature in [0, 1], in the published split; validation is a tenth of train.

    Training and validation rows are in a seeded random order, test rows in the published one. Beats shorter than 187
    points end in zeros; where a beat ends cannot be told from the published files, so all lengths are 187.
    """
    x, y = f"x_{split}", f"y_{split}"
    arrays = prepare(PUBLISHED, "1", _hold_out_validation, (x, y), path)
    how = "Published split, by beat: all 48 records are in both parts; every tenth training beat of each class held out"
    return _beats("bih", split, arrays[x], arrays[y], PUBLISHED.provenance(how))


def _hold_out_validation(content: Content) -> dict[str, Array]:
    x, y, x_test, y_test = (np.asarray(content[name]) for name in ("x_train", "y_train", "x_test", "y_test"))
    kept, held = hold_out(y, part=10, seed=_SEED)
    return {
        "x_train": x[kept],
        "y_train": y[kept],
        "x_validation": x[held],
        "y_validation": y[held],
        "x_test": x_test,
        "y_test": y_test,
    }


def load_bih_inter_patient(split: str, path: str | os.PathLike[str] | None = None) -> SequenceDataset:
    """Return beats as in ``bih``, with no patient of the test part in the training part.

    Test is DS2 of de Chazal et al., training and validation are DS1, apart by record. Each beat's id is its record
    and the sample it begins at, as in ``"208/1032"``.
    """
    arrays = prepare(INTER_PATIENT, "1", _beats_of_all_records, ("x", "y", "record", "sample"), path)
    records = {"train": set(DS1) - set(VALIDATION), "validation": set(VALIDATION), "test": set(DS2)}[split]
    rows = np.isin(arrays["record"], sorted(records))
    how = f"Split by patient (de Chazal et al.): {split} holds records {', '.join(map(str, sorted(records)))}"
    places = zip(arrays["record"][rows].tolist(), arrays["sample"][rows].tolist(), strict=True)
    ids = tuple(f"{record}/{sample}" for record, sample in places)
    return _beats("bih_inter_patient", split, arrays["x"][rows], arrays["y"][rows], INTER_PATIENT.provenance(how), ids)


def _beats_of_all_records(content: Content) -> dict[str, Array]:
    return {name: np.asarray(value) for name, value in content.items()}


def _beats(
    name: str, split: str, x: Array, y: Array, provenance: str, ids: tuple[str, ...] | None = None
) -> SequenceDataset:
    return SequenceDataset(
        name=name,
        split=split,
        inputs=torch.from_numpy(x)[:, :, None],
        lengths=torch.full((len(x),), POINTS),
        labels=torch.from_numpy(y.astype(np.int64)),
        class_names=CLASS_NAMES,
        provenance=provenance,
        ids=ids,
    )


DATASETS = {"bih": Entry(load_bih, PUBLISHED), "bih_inter_patient": Entry(load_bih_inter_patient, INTER_PATIENT)}
