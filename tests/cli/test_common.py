from __future__ import annotations

from pathlib import Path

import pytest
import torch
import typer
from rich.progress import MofNCompleteColumn

from sttau.cli.common import (
    ProgressBars,
    check_folder,
    choose_device,
    duration,
    plain_errors,
    print_line,
    print_table,
    usage_error,
)


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
