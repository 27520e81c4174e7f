"""Tasks compared with Gymnasium's own environments, and errors of invalid tasks."""

from __future__ import annotations

import builtins
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from sttau.rl import TASKS, Environments, Task, find_task
from tests.extension import copy_package, replace_once, run_copy


@pytest.mark.parametrize("name", ["cartpole-mdp", "cartpole-pomdp"])
def test_parallel_copies_match_gymnasiums_own_cartpole_step_by_step(name: str) -> None:
    task, copies = find_task(name), 8
    generator = torch.Generator().manual_seed(0)
    with Environments(task, copies) as environments:
        seen = environments.reset(seed=3)
        singles: list[Any] = [gymnasium.make("CartPole-v1", max_episode_steps=task.horizon) for _ in range(copies)]
        whole: Any = environments._environments.unwrapped
        state = whole.state
        for copy, single in enumerate(singles):
            single.reset()
            single.unwrapped.state = np.array(state[:, copy])
        running, ends = set(range(copies)), set()
        for _ in range(task.horizon):
            leaning = (seen[:, task.observations.index("angle")] > 0).long()  # keeps some of them up for long
            actions = torch.where(torch.rand(copies, generator=generator) < 0.8, leaning, 1 - leaning)
            step = environments.step(actions)
            seen = step.observations
            for copy in sorted(running):
                expected, _, failed, late, _ = singles[copy].step(int(actions[copy]))
                np.testing.assert_allclose(seen[copy], expected[list(task.seen)] * task.scale, rtol=1e-5, atol=1e-6)
                assert step.rewards[copy] == 1 - failed
                assert step.ended[copy] == (failed or late)
                if failed or late:
                    running.remove(copy)
                    ends.add("failed" if failed else "late")
        assert not running
        assert "failed" in ends


def test_an_episode_without_failure_ends_at_the_horizon() -> None:
    task = find_task("cartpole-mdp", horizon=5)
    with Environments(task, 2) as environments:
        environments.reset(seed=0)
        steps = [environments.step(torch.tensor([t % 2, (t + 1) % 2])) for t in range(5)]
    assert [step.ended.tolist() for step in steps] == [[False, False]] * 4 + [[True, True]]
    assert all(step.rewards.tolist() == [1, 1] for step in steps)


@pytest.mark.parametrize("name", TASKS)
def test_a_pomdp_shows_no_velocity_and_a_seed_gives_the_same_beginning(name: str) -> None:
    task = TASKS[name]
    with Environments(task, 3) as environments:
        first, again, other = (environments.reset(seed) for seed in (1, 1, 2))
        assert first.shape == (3, len(task.observations))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        rewards = environments.step(torch.zeros(3, dtype=torch.int64)).rewards
    assert rewards.tolist() == [1.0 if task.failing else -1.0] * 3
    assert any("velocity" in seen for seen in task.observations) == name.endswith("-mdp")


def test_unknown_tasks_and_horizon_0_are_rejected() -> None:
    with pytest.raises(ValueError, match="no task 'pong'; choose one of cartpole-mdp"):
        find_task("pong")
    with pytest.raises(ValueError, match="horizon must be at least 1 step, got 0"):
        find_task("cartpole-mdp", horizon=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"environment": "Pong-v99"}, "no environment 'Pong-v99'"),
        ({"seen": (0, 7)}, r"uses the entries \(0, 7\)"),
        ({"actions": ("left", "stay", "right")}, "has 3 actions, but CartPole-v1 has Discrete"),
    ],
)
def test_a_task_that_does_not_fit_its_environment_is_rejected(change: dict[str, Any], message: str) -> None:
    task: Task = replace(find_task("cartpole-pomdp"), **change)
    with pytest.raises(ValueError, match=message):
        Environments(task)


def test_without_gymnasium_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("gymnasium"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'pip install "sttau\[rl\]"'):
        Environments(find_task("cartpole-mdp"))


NEW_TASK = 'Task("car", "MountainCar-v0", 20, ("position", "velocity"), (0, 1), (1.0, 10.0), ("left", "-", "right")),'
USE_TASK = """
from sttau.rl import Environments, find_task, make_policy, play
task = find_task("car")
policy = make_policy("lstm", task, hidden_size=4)
with Environments(task, copies=3) as environments:
    assert play(policy, environments).scores.tolist() == [-20.0] * 3  # a step costs 1
assert policy.class_names == ("left", "-", "right")
"""


@pytest.mark.slow
def test_a_new_environment_is_one_entry(tmp_path: Path) -> None:
    """It is found by its name, and policies are made for it and act in it."""
    package = copy_package(tmp_path)
    last = '        _acrobot("acrobot-pomdp", (0, 1, 2, 3)),\n'
    replace_once(package / "rl/environments.py", last, f"{last}        {NEW_TASK}\n")
    run_copy(package, "-c", USE_TASK)
