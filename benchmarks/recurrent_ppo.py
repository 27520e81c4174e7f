"""An outside reference for docs/rl.md: RecurrentPPO of sb3-contrib, with its own settings, on our CartPole tasks.

pip install sb3-contrib
python benchmarks/recurrent_ppo.py reproduction/results/cartpole/recurrent_ppo.jsonl
"""

from __future__ import annotations

import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.monitor import Monitor

from sttau.jobs import Result, versions, write_results
from sttau.rl import Point, Task, find_task
from sttau_reproduction.cartpole.work import measure

STEPS = 24_576
RUNS = (("cartpole-pomdp", 0), ("cartpole-mdp", 0))


class Seen(gymnasium.Wrapper[Any, Any, Any, Any]):
    """What a task shows, and what it pays."""

    def __init__(self, task: Task) -> None:
        super().__init__(gymnasium.make(task.environment, max_episode_steps=task.horizon))
        self.seen, self.scale = list(task.seen), np.array(task.scale, dtype=np.float32)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (len(self.seen),), np.float32)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, more = self.env.reset(**options)
        return observation[self.seen] * self.scale, more

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do an action; the step that fails pays nothing."""
        observation, _, failed, late, more = self.env.step(action)
        return observation[self.seen] * self.scale, 1.0 - failed, failed, late, more


def run(name: str, seed: int) -> Result:
    """Train one policy for a number of steps."""
    began = time.perf_counter()
    environment = Monitor(Seen(find_task(name)))
    RecurrentPPO("MlpLstmPolicy", environment, seed=seed, policy_kwargs={"lstm_hidden_size": 100}).learn(STEPS)
    rewards, lengths = (np.array(x) for x in (environment.get_episode_rewards(), environment.get_episode_lengths()))
    steps = lengths.cumsum()
    points = [
        Point(n + 10, int(steps[n + 9]), float(rewards[n : n + 10].mean()), 0.0, None, 0.0)
        for n in range(0, len(rewards) - 9, 10)
    ]
    return Result(
        experiment="cartpole-reference",
        data=name,
        method="recurrent-ppo",
        states=None,
        seed=seed,
        metrics={**measure(points), "episodes": len(rewards)},
        settings={"steps": STEPS, "lstm_hidden_size": 100, "choice": "sampling"},
        seconds=round(time.perf_counter() - began, 2),
        versions={**versions(), **{name: version(name) for name in ("gymnasium", "sb3-contrib")}},
    )


def main(path: Path) -> None:
    """Write results as they come."""
    torch.set_num_threads(1)
    results: list[Result] = []
    for name, seed in RUNS:
        results.append(run(name, seed))
        write_results(results, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
