"""Results of the CartPole experiment, made up."""

from __future__ import annotations

from itertools import product

from sttau.jobs import Result
from sttau_reproduction.cartpole.work import METHODS, SETTINGS


def results(seeds: int = 3) -> list[Result]:
    made = []
    for (task, choice), method, seed in product(SETTINGS, METHODS, range(seeds)):
        curves = {"episodes": [50, 100], "steps": [1e3, 3e3], "reward": [20 + seed, 40.0], "entropy": [1.0, 0.5]}
        if method == "st-tau":
            curves["temperature"] = [1.0, 0.9]
        metrics = {"area": 30.0 + seed, "last": 40.0}
        if choice == "sampling" and seed < 2:
            metrics |= {"episodes_to_goal": 100 + seed, "steps_to_goal": 3000 + seed}
        settings = {"choice": choice, "curves": curves}
        made.append(Result("cartpole", task, method, None, seed, metrics, settings, 1.0))
    return made
