from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import sttau
from sttau.data import read
from tests.cli.invocation import check_failure, invoke
from tests.cli.tables import write_series


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is calibrated but hardly trained, and a table for it."""
    path = tmp_path_factory.mktemp("predict")
    data = read(write_series(path / "data.csv", 60), target="state", id="machine", time="hour")
    model = sttau.create_model(data, hidden_size=8)
    sttau.calibrate(model, data)
    model.save(path / "model.safetensors")
    return path


def test_every_format_holds_the_same_predictions(folder: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet")
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        shown = invoke("predict", folder, folder / "data.csv", "--out", tmp_path / f"out.{ending}")
        assert shown.exit_code == 0, shown.output
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pyarrow.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["id"] for row in rows] == [f"m{number}" for number in range(60)] == [row["id"] for row in table]
    model = sttau.load(folder / "model.safetensors")
    expected = sttau.predict(model, read(folder / "data.csv", like=model))
    assert [float(row["confidence"]) for row in rows] == pytest.approx(expected.confidence.tolist(), rel=1e-5)
    assert [row["abstain"] for row in table] == expected.abstain.tolist()
    assert list(tmp_path.glob(".*")) == []  # nothing unfinished is left


def test_a_file_that_cannot_be_read_leaves_the_old_output(folder: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("machine,hour,pressure,state\nm1,0,not a number,falls\n")
    out = tmp_path / "out.csv"
    out.write_text("before")
    check_failure(invoke("predict", folder, bad, "--out", out), "not a number", 1)
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "out.csv"]


def test_the_input_is_not_overwritten(folder: Path) -> None:
    before = (folder / "data.csv").read_bytes()
    shown = invoke("predict", folder, folder / "data.csv", "--out", folder / "data.csv")
    check_failure(shown, "data.csv would overwrite what is read", 2)
    command = f"{sys.executable} -m sttau predict {folder} --stdin --out {folder}/data.csv < {folder}/data.csv"
    piped = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120)
    assert (piped.returncode, "would overwrite what is read" in piped.stderr) == (2, True)
    assert (folder / "data.csv").read_bytes() == before


def test_steps_from_standard_input(folder: Path) -> None:
    steps = "101325\n101500\n\n101000\n"
    command = [sys.executable, "-c", "from sttau.cli import app; app()", "predict", str(folder), "--stdin"]
    found = subprocess.run(command, input=steps, capture_output=True, text=True, check=False, timeout=120)
    assert found.returncode == 0, found.stderr
    rows = list(csv.DictReader(found.stdout.splitlines()))
    model = sttau.load(folder / "model.safetensors")
    stream = sttau.Stream(model)
    first, second = (stream.step([value]).columns() for value in (101325.0, 101500.0))
    stream.reset()
    third = stream.step([101000.0]).columns()
    expected = torch.cat([found["confidence"] for found in (first, second, third)])
    assert [float(row["confidence"]) for row in rows] == pytest.approx(expected.tolist(), rel=1e-5)
    bad = invoke("predict", folder, "--stdin", input="1,2\n")
    check_failure(bad, "line 1 of the input must hold 1 cells", 1)


def test_lines_with_ids_continue_their_own_series(folder: Path) -> None:
    values = {"a": [101325.0, 101500.0], "b": [101000.0, 101100.0]}
    lines = [f'{{"machine": "{id}", "pressure": {values[id][step]}}}\n' for step in range(2) for id in "ab"]
    found = invoke("predict", folder, "--stdin", "--json", input="".join(lines))
    assert found.exit_code == 0, found.output
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    model = sttau.load(folder / "model.safetensors")
    for id in "ab":
        stream = sttau.Stream(model)
        expected = [float(stream.step([value]).columns()["confidence"]) for value in values[id]]
        assert [row["confidence"] for row in rows if row["id"] == id] == pytest.approx(expected, rel=1e-5)


def test_another_column_of_the_input_names_the_series(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    lines = "\ufeffpressure,site\n101325,a\n101000,b\n101500,a\n"
    found = invoke("predict", folder, "--stdin", "--id", "site", "--out", out, input=lines)
    assert (found.exit_code, found.stdout) == (0, ""), found.output
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["id"] for row in rows] == ["a", "b", "a"]
    model = sttau.load(folder / "model.safetensors")
    stream = sttau.Stream(model)
    expected = [float(stream.step([value]).columns()["confidence"]) for value in (101325.0, 101500.0)]
    assert [float(rows[place]["confidence"]) for place in (0, 2)] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("vocabulary", "texts"), [(None, ["A fine, GOOD film", "dull"]), ("strings", ["abba", "b"])])
def test_lines_of_text_are_read_as_training_texts_were(
    vocabulary: str | None, texts: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "texts.csv"
    words = ("ab", "ba") if vocabulary else ("a good film", "a dull film, fine")
    path.write_text("text,label\n" + "".join(f'"{words[row % 2]}",{row % 2}\n' for row in range(8)))
    data = read(path, text="text", layout="strings" if vocabulary else "text")
    model = sttau.create_model(data, "lstm", hidden_size=4)
    model.save(tmp_path / "model.safetensors")
    found = invoke("predict", tmp_path, "--stdin", "--json", input="\ufeff" + "\n\n".join(texts) + "\n")
    assert found.exit_code == 0, found.output
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [row["id"] for row in rows] == ["1", "3"]
    assert [row["confidence"] for row in rows] == pytest.approx(
        sttau.predict(model, texts).confidence.tolist(), rel=1e-5
    )
    path.write_text(path.read_text().replace("text,", "words,"))
    assert invoke("predict", tmp_path, path, "--text", "words").exit_code == 0
    check_failure(invoke("predict", tmp_path, "--stdin", "--id", "x", input="a"), "--id names a column", 2)


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(folder: Path) -> None:
    command = f"{sys.executable} -c 'from sttau.cli import app; app()' predict {folder} {folder / 'data.csv'} | head -1"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120)
    assert found.stdout.startswith("id,label")
    assert found.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "give either a file or --stdin"),
        (("data.csv", "--stdin"), 2, "give either a file or --stdin"),
        (("--stdin", "--text", "note"), 2, "--text is for files"),
        (("--stdin", "--time", "hour"), 2, "--time is for files"),
        (("--stdin", "--id", "site"), 1, "line 1 of the input has no column 'site', named by id="),
        (("--stdin", "--out", "out.parquet"), 1, "out must end in .csv, .tsv or .jsonl"),
        (("data.csv", "--level", "1"), 2, "--level must be between 0 and 1"),
        (("data.csv", "--out", "out.xlsx"), 1, "must end in .csv, .tsv, .jsonl or .parquet"),
        (("nothing.csv",), 1, "no file at"),
    ],
)
def test_errors_are_one_sentence(folder: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    where = [str(folder / part) if part.endswith("a.csv") else part for part in arguments]
    check_failure(invoke("predict", folder, *where, input="101325\n"), message, code)


def test_a_model_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not a model")
    check_failure(invoke("predict", tmp_path, tmp_path / "a.csv"), "model.safetensors", 1)
