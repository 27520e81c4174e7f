"""A run that was broken off ends as if nothing had happened."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from sttau import SequenceClassifier, STTauLSTM
from sttau.errors import CheckpointError, DamagedCheckpointError
from sttau.training import Interrupted, Update, fit, read_log
from sttau.training.checkpoints import checkpoint_path, read_checkpoint, write_checkpoint
from tests.training.tasks import make_data, make_model, train, weighted_options, weights

ROOT = Path(__file__).parents[2]


Whole = tuple[torch.Tensor, list[Update]]


def test_a_run_killed_at_any_moment_or_while_it_writes_a_checkpoint_ends_with_the_same_bits(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.training.killed_runs", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["killed"] >= 3
    half, whole, placed = report["left"]
    assert half[0].startswith(".checkpoint-00000010")
    assert whole[0].startswith(".checkpoint-00000020")
    assert len([name for name in placed if name.startswith("checkpoint")]) == 3
    pairs = (("killed", "left alone"), ("killed while writing", "left alone"))
    for how, alone in (*pairs, ("weighted, killed", "weighted, left alone")):
        for name in ("trained.safetensors", "log.jsonl"):
            assert (tmp_path / how / name).read_bytes() == (tmp_path / alone / name).read_bytes()
        assert _checksum(tmp_path / how) == _checksum(tmp_path / alone)  # optimizer and all
        assert not list((tmp_path / how).glob(".*"))  # no debris


def _checksum(folder: Path) -> str:
    with safe_open(checkpoint_path(folder, 40), framework="pt") as file:
        return str(json.loads(file.metadata()["sttau"])["sha256"])


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A run that was left after 11 updates, with checkpoints after 10 and 11."""
    with pytest.raises(Interrupted):
        train(make_model("dropout"), tmp_path, callbacks=_interrupt_at(11))
    assert sorted(path.name for path in tmp_path.glob("checkpoint*")) == [
        "checkpoint-00000010.safetensors",
        "checkpoint-00000011.safetensors",
    ]
    return tmp_path


def _interrupt_at(number: int) -> Any:
    def watch(update: Update) -> None:
        if update.number == number:
            os.kill(os.getpid(), signal.SIGINT)

    return watch


@pytest.fixture(scope="module")
def whole() -> Whole:
    """Weights and log of a run that was left alone."""
    model = make_model("dropout")
    log = train(model, None)
    return weights(model), log


def _finish(folder: Path) -> tuple[torch.Tensor, list[Update]]:
    model = make_model("dropout")
    torch.nn.init.zeros_(model.head.weight)  # the weights come from the checkpoint
    log = train(model, folder)
    return weights(model), log


def test_ctrl_c_finishes_the_update_and_the_next_run_goes_on_from_there(left: Path, whole: Whole) -> None:
    assert len(read_log(left / "log.jsonl")) == 11
    ended, log = _finish(left)
    assert torch.equal(ended, whole[0])
    assert log == whole[1] == read_log(left / "log.jsonl")


SCHEDULERS: dict[str, Callable[[Optimizer], LRScheduler]] = {
    "StepLR": partial(lr_scheduler.StepLR, step_size=4),
    "LambdaLR": partial(lr_scheduler.LambdaLR, lr_lambda=lambda number: 1 / (1 + number)),
    "OneCycleLR": partial(lr_scheduler.OneCycleLR, max_lr=0.05, total_steps=20),
    "CosineAnnealingWarmRestarts": partial(lr_scheduler.CosineAnnealingWarmRestarts, T_0=3, T_mult=2),
    "CyclicLR": partial(lr_scheduler.CyclicLR, base_lr=0.001, max_lr=0.02, step_size_up=4, cycle_momentum=False),
    "ReduceLROnPlateau": partial(lr_scheduler.ReduceLROnPlateau, patience=0, threshold=0.5),
    "SequentialLR": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.LinearLR(optimizer), lr_scheduler.MultiStepLR(optimizer, [2, 5])],
        milestones=[14],
    ),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_run_with_a_scheduler_resumes_with_the_same_bits(name: str, tmp_path: Path) -> None:
    options = weighted_options() | {"updates": 18, "validate_every": 3, "scheduler": SCHEDULERS[name]}
    alone, model = make_model("plain"), make_model("plain")
    log = train(alone, None, **options)
    with pytest.raises(Interrupted):
        train(model, tmp_path, callbacks=_interrupt_at(11), **options)
    resumed = make_model("plain")
    assert train(resumed, tmp_path, **options) == log
    assert torch.equal(weights(resumed), weights(alone))


def test_another_loss_other_weights_and_another_scheduler_are_other_settings(tmp_path: Path) -> None:
    options = weighted_options() | {"updates": 4}
    train(make_model("plain"), tmp_path, **options)
    changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"loss": "focal"}, r"loss was focal_loss\(gamma=1.5\), is focal"),
        ({"loss": None, "label_smoothing": 0.1}, "label_smoothing was None, is 0.1; loss was focal_loss.*, is None"),
        ({"class_weight": [1, 2]}, r"class_weight was balanced, is \(1.0, 2.0\)"),
        ({"sample_weight": None}, r"sample_weight was tensor \(36,\) with SHA-256 \w+, is None"),
        ({"scheduler": SCHEDULERS["StepLR"]}, r"scheduler was MultiStepLR\(.*\), is StepLR\(step_size=4\)"),
        ({"scheduler": None}, "scheduler was MultiStepLR.*, is None"),
    )
    for change, message in changes:
        with pytest.raises(CheckpointError, match=message):
            train(make_model("plain"), tmp_path, **options | change)


def test_ctrl_c_says_where_the_checkpoint_is_and_puts_the_handler_back(tmp_path: Path) -> None:
    usual = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match=r"after update 3 of 40.*checkpoint-00000003.*same call resumes"):
        train(make_model("plain"), tmp_path, callbacks=_interrupt_at(3))
    with pytest.raises(Interrupted, match="no checkpoint: pass folder="):
        train(make_model("plain"), None, callbacks=_interrupt_at(1))
    assert signal.getsignal(signal.SIGINT) is usual


def test_training_works_in_a_thread_where_no_signals_arrive() -> None:
    logs: list[list[Update]] = []
    thread = threading.Thread(target=lambda: logs.append(train(make_model("plain"), None, updates=2)))
    thread.start()
    thread.join()
    assert len(logs[0]) == 2


@pytest.mark.parametrize("damage", ["truncated", "emptied", "changed"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
    left: Path, whole: Whole, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = checkpoint_path(left, 11)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes({"truncated": bytes(content[:-100]), "emptied": b"", "changed": bytes(content)}[damage])
    with caplog.at_level(logging.INFO):
        ended, log = _finish(left)
    assert "checkpoint-00000011.safetensors is damaged" in caplog.text
    assert f"resumes from {checkpoint_path(left, 10)}" in caplog.text
    assert torch.equal(ended, whole[0])
    assert log == whole[1]


def test_with_no_checkpoint_whole_training_starts_anew(left: Path, caplog: pytest.LogCaptureFixture) -> None:
    for path in left.glob("checkpoint*"):
        path.write_bytes(path.read_bytes()[:50])
    seen: list[Update] = []
    model = make_model("dropout")
    with caplog.at_level(logging.WARNING), pytest.raises(Interrupted):
        train(model, left, callbacks=[seen.append, _interrupt_at(2)])
    assert [update.number for update in seen] == [1, 2]
    assert caplog.text.count("is damaged") == 2
    assert len(read_log(left / "log.jsonl")) == 2
    assert sorted(path.name for path in left.glob("checkpoint*")) == [
        "checkpoint-00000002.safetensors",
        "checkpoint-00000010.safetensors.damaged",
        "checkpoint-00000011.safetensors.damaged",
    ]


@pytest.mark.parametrize("fault", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_a_checkpoint_that_cannot_be_read_stops_the_run_and_stays(
    left: Path, monkeypatch: pytest.MonkeyPatch, fault: OSError
) -> None:
    before, usual = _contents(left), Path.open

    def fail(path: Path, *arguments: Any) -> Any:
        if path.name.startswith("checkpoint"):
            raise fault
        return usual(path, *arguments)

    monkeypatch.setattr(Path, "open", fail)
    message = f"checkpoint-00000011.safetensors cannot be read: {fault.strerror}. Make it readable"
    with pytest.raises(CheckpointError, match=message):
        _finish(left)
    monkeypatch.undo()
    assert _contents(left) == before


def test_files_of_others_with_a_checkpoints_name_are_ignored_and_kept(
    left: Path, whole: Whole, caplog: pytest.LogCaptureFixture
) -> None:
    others = {"checkpoint-best.safetensors", "checkpoint-00000012.safetensors", "checkpoint-00000500.safetensors"}
    for name in others:
        save_file({"weight": torch.ones(2)}, left / name)
    (left / "checkpoint-00000400.safetensors").mkdir()
    other = (left / "checkpoint-best.safetensors").read_bytes()
    ended, log = _finish(left)
    assert torch.equal(ended, whole[0])
    assert log == whole[1]
    assert "checkpoint-00000400.safetensors is a folder" in caplog.text
    assert "checkpoint-00000500.safetensors is not a checkpoint: it was not written by sttau" in caplog.text
    kept = {"checkpoint-best.safetensors", "checkpoint-00000500.safetensors", "checkpoint-00000012.safetensors.damaged"}
    assert {path.name for path in left.iterdir() if path.is_file() and path.read_bytes() == other} == kept
    assert (left / "checkpoint-00000400.safetensors").is_dir()
    assert read_checkpoint(checkpoint_path(left, 38))["number"] == 38  # the two newest of the run's own are kept
    assert read_checkpoint(checkpoint_path(left, 40))["number"] == 40


def test_what_a_process_left_that_was_killed_while_writing_is_removed(left: Path) -> None:
    for name in (".checkpoint-00000012.safetensors.7-0a1b2c3d.part", ".log.jsonl.7-0a1b2c3d.part", ".own.7.part"):
        (left / name).write_bytes(b"half")
    _finish(left)
    assert [path.name for path in left.glob(".*")] == [".own.7.part"]


def test_a_damaged_checkpoint_is_renamed_and_its_content_kept(left: Path) -> None:
    path = checkpoint_path(left, 11)
    damaged = path.read_bytes()[:-100]
    path.write_bytes(damaged)
    _finish(left)
    assert (left / "checkpoint-00000011.safetensors.damaged").read_bytes() == damaged


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_no_wrong_bit_in_a_checkpoint_goes_unseen(tmp_path: Path) -> None:
    path = checkpoint_path(tmp_path, 1)
    value = {"weight": torch.randn(3, 2), "half": torch.ones(2).bfloat16(), "scalar": torch.tensor(2.0)}
    write_checkpoint(path, {"tensors": value, "state": {0: (1, None, 0.1, [True, "τ"])}, "none": torch.empty(0)})
    content = path.read_bytes()
    again = read_checkpoint(path)
    assert again["state"] == {0: (1, None, 0.1, [True, "τ"])}
    assert all(torch.equal(again["tensors"][name], tensor) for name, tensor in value.items())
    for place in range(0, len(content), 3):
        for changed in (content[:place], content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]):
            path.write_bytes(changed)
            with pytest.raises(DamagedCheckpointError):
                read_checkpoint(path)


def test_a_checkpoint_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="cannot hold a set, found at /deep/0"):
        write_checkpoint(checkpoint_path(tmp_path, 1), {"deep": [set()]})


def test_other_settings_are_refused_and_what_differs_is_named(left: Path) -> None:
    options: list[tuple[dict[str, Any], str]] = [
        ({"learning_rate": 0.5}, r"learning_rate was 0\.02, is 0\.5\. Use the same"),
        ({"updates": 50, "seed": 1}, "updates was 40, is 50; seed was 5, is 1"),
        ({"optimizer": torch.optim.Adagrad}, "optimizer was AdamW"),
        ({"patience": 2}, "patience was None, is 2"),
    ]
    for changed, message in options:
        with pytest.raises(ValueError, match=message):
            train(make_model("dropout"), left, **changed)
    with pytest.raises(ValueError, match=r"model\.layer\.arguments\.hidden_size was 8, is 9"):
        train(SequenceClassifier(STTauLSTM(2, 9, 3), 2), left)
    x, y, lengths = make_data()
    with pytest.raises(ValueError, match="data was 36 sequences with SHA-256"):
        fit(make_model("dropout"), x + 1, y, lengths, folder=left)


def test_a_run_that_is_over_is_not_made_again_but_gives_its_best_weights(tmp_path: Path) -> None:
    first, second = make_model("plain"), make_model("plain")
    seen: list[Update] = []
    options: dict[str, Any] = {"patience": 1, "learning_rate": 0.3, "ema_decay": None, "schedule": "constant"}
    log = train(first, tmp_path, **options)
    assert len(log) < 40  # it ended early
    assert train(second, tmp_path, callbacks=seen.append, **options) == log
    assert not seen
    assert torch.equal(weights(first), weights(second))


def test_a_run_that_is_over_is_loaded_from_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make_model("plain"), make_model("plain")
    log = train(first, tmp_path, updates=4)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(30, "Read-only file system")

    usual = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, mode="r", *rest: (refuse if mode != "rb" else usual)(path, mode, *rest)
    )
    for name in ("write_bytes", "unlink", "mkdir"):
        monkeypatch.setattr(Path, name, refuse)
    monkeypatch.setattr(os, "replace", refuse)
    assert train(second, tmp_path, updates=4) == log
    monkeypatch.undo()
    assert torch.equal(weights(first), weights(second))


def test_a_resumed_run_says_that_its_log_has_holes(left: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = (left / "log.jsonl").read_bytes().splitlines(keepends=True)
    (left / "log.jsonl").write_bytes(b"".join([*lines[:4], b"torn\n", *lines[5:9]]))
    _, log = _finish(left)
    assert f"the log {left / 'log.jsonl'} has holes: 3 of 11 updates are missing, first 5" in caplog.text
    assert [update.number for update in log] == [1, 2, 3, 4, *range(6, 10), *range(12, 41)]


def test_diverging_names_update_and_culprits_and_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    model = make_model("plain")

    def spoil(update: Update) -> None:
        if update.number == 5:
            torch.nn.init.constant_(model.get_parameter("layer.rnn.bias_hh_l0"), float("nan"))

    message = r"loss became nan at update 6 of 40.*not finite: layer\.rnn\.bias_hh_l0\. .*checkpoint-00000004"
    with pytest.raises(FloatingPointError, match=message):
        train(model, tmp_path, callbacks=spoil)
    assert len(train(make_model("plain"), tmp_path)) == 40


def test_a_second_run_in_a_folder_is_refused_while_the_first_trains_and_changes_nothing(tmp_path: Path) -> None:
    refused: list[str] = []

    def train_too(update: Update) -> None:
        if update.number == 5:
            before = _contents(tmp_path)
            with pytest.raises(CheckpointError) as error:
                train(make_model("plain"), tmp_path)
            refused.append(str(error.value))
            assert _contents(tmp_path) == before

    log = train(make_model("plain"), tmp_path, callbacks=train_too)
    assert refused == [f"{tmp_path}: another run trains in this folder. Wait until it ends, or use another folder."]
    assert train(make_model("plain"), tmp_path) == log  # the lock ended with the run
