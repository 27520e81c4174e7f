from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import sttau
from tests.cli.invocation import check_failure, invoke, invoke_in_terminal
from tests.cli.tables import write_series, write_texts

SMALL = ("--set", "hidden_size=8", "--set", "updates=60", "--set", "validate_every=20", "--device", "cpu")
COLUMNS = ("--target", "state", "--id", "machine", "--time", "hour")


def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-c", "from sttau.cli import app; app()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def test_train_predict_and_evaluate_through_processes_and_a_pipe(tmp_path: Path) -> None:
    data, new = write_series(tmp_path / "train.csv"), write_series(tmp_path / "new.csv", 40, seed=1)
    out = tmp_path / "model"
    made = run("train", data, *COLUMNS, "--out", out, *SMALL)
    assert made.returncode == 0, made.stderr
    assert "120 series of 6 steps" in made.stdout
    assert "features: pressure" in made.stdout
    assert "2 classes: falls 60, rises 60" in made.stdout
    assert "\x1b" not in made.stdout + made.stderr  # no colors and no bar in a pipe
    assert {"model.safetensors", "report.html", "run.json", "training"} <= {path.name for path in out.iterdir()}
    assert json.loads((out / "run.json").read_text("utf-8"))["method"] == "st-tau"
    page = (out / "report.html").read_text("utf-8")
    assert "<svg role=" in page
    assert "http" not in page

    found = run("predict", out, new, "--json")
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [row["id"] for row in rows] == [f"m{number}" for number in range(40)]
    assert sum(row["label"] == ("falls", "rises")[number % 2] for number, row in enumerate(rows)) >= 36
    assert {"confidence", "total", "aleatoric", "epistemic", "abstain", "is_ood", "set"} <= set(rows[0])
    shown = invoke("evaluate", out, new)
    assert shown.exit_code == 0, shown.output
    assert "error %" in shown.output
    assert "rises" in shown.output


def test_missing_values_are_read_and_kept_in_the_model(tmp_path: Path) -> None:
    data = write_series(tmp_path / "train.csv", missing=True)
    shown = invoke("train", data, *COLUMNS, "--out", tmp_path / "model", *SMALL)
    assert shown.exit_code == 0, shown.output
    assert "missing" in shown.output
    model = sttau.load(tmp_path / "model" / "model.safetensors")
    assert model.preprocessing.missing == "mask"
    assert invoke("predict", tmp_path / "model", data).exit_code == 0


def test_texts_and_another_method(tmp_path: Path) -> None:
    data = write_texts(tmp_path / "reviews.csv")
    shown = invoke("train", data, "--text", "review", "--method", "lstm", "--out", tmp_path / "model", *SMALL)
    assert shown.exit_code == 0, shown.output
    read = invoke("run", tmp_path / "model", "a fine plot")
    assert read.exit_code == 0, read.output
    assert "fine" in read.output
    assert "epistemic" in read.output


def test_members_that_are_drawn_at_the_end_are_saved_and_drawn_again_alike_on_resume(tmp_path: Path) -> None:
    data, out = write_series(tmp_path / "machines.csv"), tmp_path / "model"
    command = ("train", data, *COLUMNS, "--method", "swag", "--set", "size=3", "--out", out, *SMALL)
    assert invoke(*command).exit_code == 0
    first = sttau.load(out / "model.safetensors")
    assert len(first.members) == 3
    assert invoke(*command, "--resume").exit_code == 0
    again = sttau.load(out / "model.safetensors")
    assert all(bool((one == two).all()) for one, two in zip(first.parameters(), again.parameters(), strict=True))


def test_a_folder_that_is_not_empty_is_resumed_only_when_asked(tmp_path: Path) -> None:
    data, out = write_series(tmp_path / "train.csv"), tmp_path / "model"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    command = ("train", data, *COLUMNS, "--out", out, *SMALL)
    check_failure(invoke(*command), "--resume continues its training", 2)
    assert invoke(*command, "--resume").exit_code == 0
    again = invoke(*command, "--resume")  # finished: the model is made again from its checkpoint
    assert again.exit_code == 0
    assert (out / "notes.txt").read_text() == "mine"


def test_an_interrupted_training_says_how_to_continue(tmp_path: Path) -> None:
    data, out = write_series(tmp_path / "train.csv"), tmp_path / "model"
    command = [sys.executable, "-c", "from sttau.cli import app; app()", "train", str(data), *COLUMNS]
    options = ["--out", str(out), *SMALL, "--set", "updates=100000"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = out / "training" / "log.jsonl"
    for _ in range(600):
        if log.exists() and log.stat().st_size > 2000:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in shown
    assert "Traceback" not in shown
    assert list((out / "training").glob("checkpoint-*"))


def test_a_terminal_of_twenty_columns(tmp_path: Path) -> None:
    data = write_series(tmp_path / "train.csv", 40)
    shown = invoke_in_terminal("train", data, *COLUMNS, "--out", tmp_path / "model", *SMALL, columns=20)
    assert "loss 0." in shown  # the progress bar


def test_settings_of_training_reach_it_and_are_recorded(tmp_path: Path) -> None:
    data, out = write_series(tmp_path / "train.csv", 40), tmp_path / "model"
    settings = ("epochs=3", 'class_weight={"rises": 2.5}', "loss=focal", "batch_size=8", "hidden_size=8")
    given = [part for setting in settings for part in ("--set", setting)]
    shown = invoke("train", data, *COLUMNS, "--out", out, "--quick", "--device", "cpu", *given)
    assert shown.exit_code == 0, shown.output
    record = json.loads((out / "run.json").read_text())
    assert record["training"] == {"epochs": 3, "class_weight": {"rises": 2.5}, "loss": "focal", "batch_size": 8}
    assert record["updates"] == 3 * 4
    wrong = ("--out", tmp_path / "other", "--device", "cpu", "--set", 'class_weight={"up": 2}')
    known = "class_weight names 'up'; the classes are 'falls', 'rises' or 0"
    check_failure(invoke("train", data, *COLUMNS, *wrong), known, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--target", "nothing"), 1, "nothing"),
        (("--target", "state", "--validation", "2"), 2, "--validation must be between 0 and 1"),
        (("--target", "state", "--risk", "0"), 2, "--risk must be above 0 and at most 1, got 0"),
        (("--target", "state", "--coverage", "2"), 2, "--coverage must be above 0 and at most 1, got 2"),
        (("--target", "state", "--method", "forest"), 2, "forest"),
        (("--target", "state", "--set", "states"), 2, "--set must be name=value"),
        (("--target", "state", "--set", "num_sates=3"), 2, "did you mean num_states?"),
        (("--target", "state", "--set", "updats=20"), 2, "did you mean updates?"),
        (("--target", "state", "--set", "seed=3"), 2, "--set seed: --seed of this command sets it"),
        (("--target", "state", "--set", "folder=abc"), 2, "--set folder: --out of this command sets it"),
        (("--target", "state", "--set", "method=lstm"), 2, "--set method: --method of this command sets it"),
        (("--target", "state", "--set", "data=1"), 2, "--set data: the argument DATA of this command sets it"),
        (("--target", "state", "--set", "optimizer=SGD"), 2, "--set optimizer: this takes an object of Python"),
        (("--target", "state", "--set", "callbacks=1"), 2, "--set callbacks: this takes an object of Python"),
        (("--target", "state", "--set", "model=3"), 2, "model of 'st-tau' must map names to values, such as head"),
        (("--target", "state", "--set", 'model={"foo":1}'), 2, "there is no 'foo'; choose from head, dropout"),
        (("--target", "state", "--set", "weight_decay=null"), 2, "--set weight_decay must be a number, got None"),
        (("--target", "state", "--set", "ema_decay=much"), 2, "--set ema_decay: 'much' is no value that it takes"),
        (("--target", "state", "--set", "cuda_graphs=3"), 2, "--set cuda_graphs must be true or false, got 3"),
        (("--target", "state", "--set", "updates=9", "--set", "epochs=1"), 2, "give updates or epochs, not both"),
        (("--target", "state", "--set", "mode=most"), 1, "mode must be one of 'soft', 'hard', 'exact'"),
    ],
)
def test_errors_are_one_sentence(arguments: tuple[str, ...], code: int, message: str, tmp_path: Path) -> None:
    data = write_series(tmp_path / "train.csv", 20)
    check_failure(invoke("train", data, *arguments, *COLUMNS[2:], "--out", tmp_path / "model"), message, code)
    assert not (tmp_path / "model").exists()  # nothing was trained


def test_the_mode_of_the_layer_is_told_apart_from_that_of_the_metric(tmp_path: Path) -> None:
    data, out = write_series(tmp_path / "train.csv", 20), tmp_path / "model"
    given = [part for name in ("mode=exact", "cell=gru", "readout=state", "num_states=3") for part in ("--set", name)]
    shown = invoke("train", data, *COLUMNS, "--out", out, *given, "--set", "updates=2", "--device", "cpu")
    assert shown.exit_code == 0, shown.output
    assert sttau.load(out / "model.safetensors").layer.mode == "exact"


def test_features_and_layout_are_chosen(tmp_path: Path) -> None:
    data, out = tmp_path / "train.csv", tmp_path / "model"
    data.write_text(
        "id,x,y,note,label\n" + "".join(f"{row},{row},{row % 5},{row} times,{'uv'[row % 2]}\n" for row in range(40))
    )
    command = ("train", data, "--features", "y,x", "--layout", "long", "--out", out, "--set", "updates=2")
    shown = invoke(*command, "--set", "hidden_size=4", "--device", "cpu")
    assert shown.exit_code == 0, shown.output
    assert "layout: long" in shown.output
    assert sttau.load(out / "model.safetensors").feature_names == ("y", "x")
    assert json.loads((out / "run.json").read_text())["roles"]["features"] == ["y", "x"]


def test_a_risk_is_refused_for_a_regressor_before_training(tmp_path: Path) -> None:
    data = tmp_path / "train.csv"
    data.write_text("id,x,load\n" + "".join(f"{row // 2},{row},{row // 2 + 0.5}\n" for row in range(40)))
    command = ("train", data, "--target", "load", "--risk", "0.1", "--out", tmp_path / "model")
    check_failure(invoke(*command), "--risk is an error rate, which a regressor does not have; use --coverage", 2)
    assert not (tmp_path / "model").exists()


def test_debug_shows_the_trace(tmp_path: Path) -> None:
    data = write_series(tmp_path / "train.csv", 20)
    check_failure(invoke("train", data, "--target", "nothing", "--out", tmp_path / "model"), "nothing", 1)
    traced = run("--debug", "train", data, "--target", "nothing", "--out", tmp_path / "model")
    assert traced.returncode != 0
    assert "Traceback" in traced.stderr
