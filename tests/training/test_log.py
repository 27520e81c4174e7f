from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sttau.training import TensorBoard, Update, read_log
from sttau.training.log import JsonLines

FIRST = Update(1, 9, loss=0.1, temperature=(1.0, 2.5), gradient_norm=3.0)
SECOND = Update(2, 9, loss=float("inf"), temperature=(), validation=0.5, metrics={"nll": 0.5, "error": 0.25})


def test_updates_are_read_as_they_were_written_and_at_once(tmp_path: Path) -> None:
    with JsonLines(tmp_path / "log.jsonl") as log:
        log(FIRST)
        assert read_log(tmp_path / "log.jsonl") == [FIRST]
        log(SECOND)
        assert read_log(tmp_path / "log.jsonl") == [FIRST, SECOND]
    assert read_log(tmp_path / "nothing.jsonl") == []


@pytest.mark.parametrize("rest", [b"", b'{"number": 3, "of"', b"\n", b"\x00\xff"])
def test_a_log_is_cut_at_the_checkpoint_and_what_was_never_finished_is_dropped(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "log.jsonl"
    with JsonLines(path) as log:
        log(FIRST)
        log(SECOND)
    path.write_bytes(path.read_bytes() + rest)
    assert read_log(path) == [FIRST, SECOND]
    with JsonLines(path, keep=1) as log:
        assert log.updates == [FIRST]
        log(SECOND)
    assert read_log(path) == [FIRST, SECOND]


DAMAGED = (b"", b"\x00\xff", b'{"number": 2, "of": 9, "loss": "low", "temperature": []}', b"[" * 99999)


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_log_is_read_and_says_that_it_has_holes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    path, third = tmp_path / "log.jsonl", replace(FIRST, number=3)
    with JsonLines(path) as log:
        log(FIRST)
    path.write_bytes(path.read_bytes() + damage + b"\n")
    with JsonLines(tmp_path / "other.jsonl") as log:
        log(third)
    path.write_bytes(path.read_bytes() + (tmp_path / "other.jsonl").read_bytes())
    assert read_log(path) == [FIRST, third]
    assert f"the log {path} has holes: 1 of 3 updates are missing, first 2" in caplog.text
    assert read_log(path, last=1) == [FIRST]
    read_log(path, last=9)
    assert "has holes: 7 of 9 updates are missing, first 2" in caplog.text


def test_updates_that_were_left_out_on_purpose_are_not_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with JsonLines(tmp_path / "log.jsonl") as log:
        log(replace(FIRST, number=10))
    assert [update.number for update in read_log(tmp_path / "log.jsonl", thinned=True)] == [10]
    assert not caplog.text


def test_a_number_of_many_digits_in_a_damaged_log_costs_no_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with JsonLines(tmp_path / "log.jsonl") as log:
        log(replace(FIRST, number=2**62))
    assert read_log(tmp_path / "log.jsonl")[0].number == 2**62
    assert f"{2**62 - 1} of {2**62} updates are missing, first 1" in caplog.text


def test_tensorboard_gets_loss_validation_and_temperature_and_a_resumed_run_hides_what_it_makes_again(
    tmp_path: Path,
) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for updates in ([FIRST, SECOND], [Update(2, 9, 0.7, (), metrics={"nll": 0.4})]):
        board = TensorBoard(tmp_path)
        for update in updates:
            board(update)
        board.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == {
        "loss", "gradient norm", "temperature/0", "temperature/1", "validation/nll", "validation/error",
    }  # fmt: skip
    assert [(event.step, round(event.value, 3)) for event in events.Scalars("loss")] == [(1, 0.1), (2, 0.7)]
    assert [event.value for event in events.Scalars("temperature/1")] == [2.5]


def test_without_tensorboard_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("tensorboard", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"sttau\[tensorboard\]"):
        TensorBoard(tmp_path)
