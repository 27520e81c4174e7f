from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import typer
from rich.progress import MofNCompleteColumn

from sttau.cli.common import (
    App,
    ProgressBars,
    check_folder,
    check_output,
    choose_device,
    choose_layout,
    duration,
    plain_errors,
    print_line,
    print_table,
    split_names,
    usage_error,
)
from tests.cli.invocation import invoke


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("k must be [at least] 1"), 1, "k must be [at least] 1"),
        (ImportError("needs gymnasium"), 1, "needs gymnasium"),
        (FileNotFoundError("there is no file a"), 1, "there is no file a"),
        (FileNotFoundError(2, "No such file or directory", "a.json"), 1, "a.json: No such file or directory"),
        (KeyboardInterrupt("the same call resumes"), 130, "the same call resumes"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_expected_errors_are_one_line_on_standard_error(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as exit, plain_errors():
        raise error
    assert exit.value.exit_code == code
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", message + "\n")


def test_an_unexpected_error_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="bug"), plain_errors():
        raise RuntimeError("bug")


def test_a_usage_error_has_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as exit, plain_errors():
        usage_error("--kind must be dfa or pa")
    assert exit.value.exit_code == 2
    assert capsys.readouterr().err == "--kind must be dfa or pa\n"


def test_a_file_is_refused_where_a_folder_is_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_folder(tmp_path)
    check_folder(tmp_path / "new")
    (tmp_path / "file").touch()
    with pytest.raises(typer.Exit):
        check_folder(tmp_path / "file")
    assert "--out must be a folder" in capsys.readouterr().err


def test_what_is_read_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, link, parts = tmp_path / "a.csv", tmp_path / "link.csv", tmp_path / "parts"
    file.touch()
    link.symlink_to(file)
    parts.mkdir()
    (parts / "1.csv").touch()
    check_output(tmp_path / "new.csv", file)
    check_output(file, parts, None, "")
    for out, read in ((file, file), (link, file), (tmp_path / "parts/../a.csv", file), (parts / "1.csv", parts)):
        with pytest.raises(typer.Exit) as exit:
            check_output(out, read)
        assert exit.value.exit_code == 2
        assert f"--out {out} would overwrite what is read" in capsys.readouterr().err


def test_auto_is_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == "cuda"
    assert choose_device("cpu") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == "cpu"


@pytest.mark.parametrize("device", ["tpu", "cuda"])
def test_a_device_that_is_not_available_is_refused(
    device: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(typer.Exit) as exit:
        choose_device(device)
    assert exit.value.exit_code == 2
    assert capsys.readouterr().err == f"--device {device} is not available; this machine has cpu\n"


def test_names_are_repeated_or_separated_by_commas() -> None:
    assert split_names(["x, y", '"a,b"', "z"]) == ["x", "y", "a,b", "z"]
    assert split_names([]) is split_names([""]) is split_names(None) is None


def test_one_layout_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert [choose_layout(None, True), choose_layout("wide", True), choose_layout("long", False)] == ["wide"] * 2 + [
        "long"
    ]
    assert choose_layout(None, False) is None
    for layout, wide, message in (
        ("short", False, "--layout must be one of long, wide"),
        ("long", True, "leave out one"),
    ):
        with pytest.raises(typer.Exit):
            choose_layout(layout, wide)
        assert message in capsys.readouterr().err


def test_a_line_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = "Written: folder[1]/" + 200 * "x"
    print_line(text)
    assert capsys.readouterr().out == text + "\n"


def test_a_table_in_a_pipe_is_as_wide_as_it_needs_to_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table(["name", "size", "note"], [[50 * "n", "1", "a"], ["m", "100", "b"]], align="lrl")
    rows = capsys.readouterr().out.splitlines()
    assert rows[3] == f"│ {50 * 'n'} │    1 │ a    │"
    assert rows[4] == f"│ {'m':50} │  100 │ b    │"


def test_durations_have_a_suitable_unit() -> None:
    assert [duration(seconds) for seconds in (0.4, 99, 100, 5999, 6000)] == ["0 s", "99 s", "2 min", "100 min", "1.7 h"]


def test_progress_outside_a_terminal_is_a_line_per_task(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBars("training:", MofNCompleteColumn()) as bars:
        for title in ("a", "b"):
            for done in range(3):
                bars.update(title, done, 10)
    assert capsys.readouterr().out == "training: a\ntraining: b\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_every_encoding_of_the_output_shows_the_same_meaning(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    app = App()

    @app.command()
    def show() -> None:
        print_table(["method", "p"], [["ST-τ", "▲ ≤ 0.05"]])
        print_line("50 µs … 字")
        usage_error("τ must be ≥ 0")

    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with pytest.raises(SystemExit) as exit:
        app([])
    monkeypatch.undo()
    assert exit.value.code == 2
    shown, wrong = (stream.buffer.getvalue().decode(encoding) for stream in (out, err))
    if encoding == "utf-8":
        assert "ST-τ" in shown
        assert wrong == "τ must be ≥ 0\n"
    else:
        assert "ST-tau" in shown
        assert "^ <= 0.05" in shown
        assert wrong == "tau must be >= 0\n"
        assert "?" in shown


def test_the_help_is_shown_in_ascii() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "100"}
    command = [sys.executable, "-m", "sttau", "bench", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    assert "Time ST-tau compared with nn.LSTM" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--threads", "-1"), "'--threads'"),
        (("--threads", "9" * 20), "'--threads'"),
        (("--seconds", "-1"), "'--seconds'"),
        (("--seconds", "nan"), "'--seconds'"),
        (("--seconds", "inf"), "'--seconds'"),
    ],
)
def test_numbers_that_make_no_sense_are_usage_errors(options: tuple[str, str], message: str, tmp_path: Path) -> None:
    shown = invoke("bench", "--out", tmp_path / "bench", *options)
    assert shown.exit_code == 2
    assert f"Invalid value for {message}" in shown.output
    assert not (tmp_path / "bench").exists()
