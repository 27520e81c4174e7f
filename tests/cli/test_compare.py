from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.cli.invocation import check_failure, invoke

TINY = ["--seeds", "1", "--updates", "4", "--hidden-size", "4", "--samples", "2"]


def test_the_table_is_shown_and_written(tmp_path: Path) -> None:
    command = ["compare", "digits", "--methods", "lstm,st-tau", *TINY, "--set", "st-tau.num_states=3", "--scaling"]
    shown = invoke(*command, "--out", tmp_path)
    assert shown.exit_code == 0, shown.output
    for words in (
        "training: st-tau, seed 0 (2 of 2)",
        "digits, 1 seed ",
        "st-tau + scaling",
        "ECE %",
        "decide on NLL and Brier",
        "table.md",
    ):
        assert words in shown.output
    assert "st-tau + scaling" in (tmp_path / "table.md").read_text("utf-8")
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert '"states": 3' in (tmp_path / "results.jsonl").read_text("utf-8")
    again = invoke(*command, "--updates", "5", "--out", tmp_path)
    assert again.exit_code == 1
    assert "updates was 4, is 5" in again.stderr


def test_a_table_is_read_as_the_options_say(tmp_path: Path) -> None:
    data = tmp_path / "series.csv"
    data.write_text(
        "id,x,y,note,label\n" + "".join(f"{row},{row},{row % 5},{row} times,{row % 3}\n" for row in range(40))
    )
    options = ("--features", "x", "--features", "y", "--layout", "long", "--task", "regression", "--methods", "lstm")
    shown = invoke("compare", data, *options, *TINY, "--out", tmp_path / "out")
    assert shown.exit_code == 0, shown.output
    assert "features: x 0 to 39, y 0 to 4" in shown.output
    assert "target: label, regression" in shown.output


def test_a_folder_of_files_is_a_table(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in range(2):
        rows = (f"{part}-{row},{step},{row + step},{'uv'[row % 2]}\n" for row in range(20) for step in range(2))
        (folder / f"{part}.csv").write_text("id,t,x,label\n" + "".join(rows))
    shown = invoke("compare", folder, "--methods", "lstm", *TINY, "--out", tmp_path / "out")
    assert shown.exit_code == 0, shown.output
    assert "parts, train: 40 series of 2 steps" in shown.output


def test_after_an_interruption_the_message_says_how_to_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sttau.training import Interrupted

    message = "training was interrupted after update 3 of 4; the same call resumes there"

    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted(message)

    monkeypatch.setattr(import_module("sttau.comparison"), "compare", interrupted)
    check_failure(invoke("compare", "digits", *TINY, "--out", tmp_path), message, code=130)


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (["--methods", "rnn"], "method must be one of lstm", 1),
        (["--ood", "mnist"], "name must be one of bih", 1),
        (["--set", "num_states=3"], "--set must be method.name=value", 2),
        (["--set", "st-tau.num_sates=3"], "did you mean num_states?", 2),
        (["--set", "st-tau.updates=3"], "--set updates: --updates of this command sets it", 2),
        (["--set", "st-tau.model=3"], "model of 'st-tau' must map names to values", 2),
        (["--set", "rnn.cell=gru"], "method must be one of lstm", 2),
        (["--set", "bayes.prior_mixture=3"], "settings of 'bayes' do not fit BayesLSTM", 1),
        (["--device", "tpu"], "--device tpu is not available", 2),
    ],
)
def test_wrong_options_are_refused(options: list[str], message: str, code: int, tmp_path: Path) -> None:
    check_failure(invoke("compare", "digits", *TINY, *options, "--out", tmp_path), message, code)


@pytest.mark.parametrize("option", ["--seeds", "--updates", "--batch-size", "--hidden-size", "--samples"])
def test_counts_must_be_positive(option: str) -> None:
    shown = invoke("compare", "digits", option, "0")
    assert shown.exit_code == 2
    assert f"Invalid value for '{option}'" in shown.output
