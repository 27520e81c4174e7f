from __future__ import annotations

import signal
from pathlib import Path

import pytest

from sttau import SequenceClassifier
from sttau.rl import find_task, make_policy
from tests.cli.invocation import check_failure, invoke


def test_a_policy_is_trained_saved_evaluated_and_drawn(tmp_path: Path) -> None:
    policy, video, drawing = tmp_path / "policy.safetensors", tmp_path / "video.gif", tmp_path / "automaton.json"
    trained = invoke("rl", "train", "cartpole-pomdp", "--episodes", "20", "--hidden-size", "8", "--out", policy)
    assert trained.exit_code == 0, trained.output
    assert len((tmp_path / "policy/log.jsonl").read_text("utf-8").splitlines()) == 2
    watched = invoke("rl", "watch", policy, "--out", video, "--automaton", drawing, "--episodes", "5")
    assert watched.exit_code == 0, watched.output
    assert "cartpole-pomdp, sampling: mean reward" in watched.output
    assert video.read_bytes().startswith(b"GIF89a")
    assert "angle" in drawing.read_text("utf-8")
    other_task = invoke("rl", "watch", policy, "--task", "cartpole-mdp")
    check_failure(other_task, "cartpole-mdp", code=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["pong"], "no task 'pong'"),
        (["cartpole-mdp", "--choice", "lazy"], "choice must be one of 'sampling', 'greedy'"),
        (["cartpole-mdp", "--method", "svm"], "method must be one of lstm"),
    ],
)
def test_unknown_names_are_refused(options: list[str], message: str) -> None:
    check_failure(invoke("rl", "train", *options), message, code=1)


def test_a_horizon_must_be_positive() -> None:
    shown = invoke("rl", "train", "cartpole-mdp", "--horizon", "0")
    assert shown.exit_code == 2
    assert "Invalid value for '--horizon'" in shown.output


def test_a_missing_policy_is_named(tmp_path: Path) -> None:
    check_failure(invoke("rl", "watch", tmp_path / "none.safetensors"), "there is no file", code=1)


def test_the_same_command_resumes_an_interrupted_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy.safetensors"
    command = ("rl", "train", "cartpole-mdp", "--episodes", "30", "--hidden-size", "8", "--out", policy)
    penalty = SequenceClassifier.penalty

    def interrupt(self: SequenceClassifier, sequences: int) -> None:
        penalty(self, sequences)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SequenceClassifier, "penalty", interrupt)
    check_failure(invoke(*command), "training was interrupted after update 1 of 3. The last checkpoint is", code=130)
    assert not policy.exists()
    monkeypatch.undo()
    shown = invoke(*command)
    assert shown.exit_code == 0, shown.output
    assert "10 episodes: reward" not in shown.output
    assert "20 episodes: reward" in shown.output
    assert len((tmp_path / "policy/log.jsonl").read_text("utf-8").splitlines()) == 3
    assert "trained for 30 episodes" in invoke(*command).output  # nothing is left to do
    check_failure(invoke(*command, "--seed", "1"), "seed was 0, is 1", code=1)


def test_a_policy_is_watched_as_it_was_trained(tmp_path: Path) -> None:
    policy = tmp_path / "policy.safetensors"
    options = ("--episodes", "10", "--hidden-size", "8", "--choice", "greedy", "--out", policy)
    invoke("rl", "train", "cartpole500-pomdp", *options)
    shown = invoke("rl", "watch", policy, "--episodes", "3")
    assert "cartpole500-pomdp, greedy: mean reward" in shown.output
    assert "at most 500 steps" in shown.output
    other = invoke("rl", "watch", policy, "--episodes", "3", "--task", "cartpole-pomdp", "--choice", "sampling")
    assert "cartpole-pomdp, sampling: mean reward" in other.output


def test_a_policy_without_a_task_needs_its_name(tmp_path: Path) -> None:
    task = find_task("cartpole-mdp")
    policy = make_policy("lstm", task, hidden_size=8).save(tmp_path / "policy.safetensors")
    check_failure(invoke("rl", "watch", policy), "name them with --task and --choice", code=1)
    shown = invoke("rl", "watch", policy, "--task", "cartpole-mdp", "--choice", "greedy", "--episodes", "3")
    assert shown.exit_code == 0, shown.output
