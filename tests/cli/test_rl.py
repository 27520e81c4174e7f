from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invocation import check_failure, invoke


def test_a_policy_is_trained_saved_evaluated_and_drawn(tmp_path: Path) -> None:
    policy, video, drawing = tmp_path / "policy.safetensors", tmp_path / "video.gif", tmp_path / "automaton.json"
    trained = invoke("rl", "train", "cartpole-pomdp", "--episodes", "20", "--hidden-size", "8", "--out", policy)
    assert trained.exit_code == 0, trained.output
    assert len(policy.with_suffix(".jsonl").read_text("utf-8").splitlines()) == 2
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
