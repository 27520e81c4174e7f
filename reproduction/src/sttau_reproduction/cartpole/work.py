"""CartPole with 50 steps (the paper's appendix on reinforcement learning): four methods, four settings, twenty seeds.

The settings are MDP (position, angle and their velocities are seen) or POMDP (no velocities), and actions that are
sampled or greedy. Every method is trained by the same REINFORCE with the same budget. What the paper tuned is tuned
here too, with other seeds, and so is the learning rate of each method: both on the area under the curve of the sampling
settings, then the learning rate for greedy actions on that of the greedy ones. τ starts at 1 and k is 2, as in the
paper.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from sttau.jobs import Cell, Outcome, Result, Step, per_cell, run_cells, versions, write_results
from sttau.models import SequenceClassifier
from sttau.rl import Environments, Point, Settings, find_task, make_policy, play, train

METHODS = ("lstm", "bayes", "dropout", "st-tau")
#: (task, choice), in the order of the paper's figure.
SETTINGS = tuple(product(("cartpole-mdp", "cartpole-pomdp"), ("sampling", "greedy")))
GOAL = 45.0  # of 50
VERSION = 1

_RATES = (0.003, 0.01)
#: What is tried for each method: the paper's grids, and two learning rates.
GRIDS: dict[str, list[dict[str, Any]]] = {
    "lstm": [{}],
    "bayes": [{"mean": mean, "rho": rho} for mean in (0.0, 0.01, 0.05, 0.1) for rho in (-1.0, -2.0, -3.0, -4.0)],
    "dropout": [{"dropout": rate} for rate in (0.05, 0.1, 0.2)],
    "st-tau": [{}],
}
_FIRST_TUNING_SEED = 1000
_WINDOW = 50  # episodes that are averaged, for the curve that is kept and for the goal


class Plan(NamedTuple):
    """How much is computed."""

    seeds: int = 20
    episodes: int = 1000
    tuning_seeds: int = 2
    tuning_episodes: int = 600
    hidden_size: int = 100
    grids: dict[str, list[dict[str, Any]]] = GRIDS


#: For a first look, and for tests: everything once, with little.
QUICK = Plan(2, 100, 1, 50, 16, {method: grid[:1] for method, grid in GRIDS.items()})


#: By method and choice: the learning rate, and what the layer is given.
Chosen = dict[str, dict[str, dict[str, Any]]]


def tuning_cells(plan: Plan = Plan()) -> list[Cell]:  # noqa: B008 (immutable)
    """All that is tried where actions are sampled, with seeds that are used for nothing else."""
    return [
        cell
        for method in METHODS
        for layer, rate in product(plan.grids[method], _RATES)
        for cell in _tried("sampling", method, rate, layer, plan)
    ]


def greedy_tuning_cells(chosen: Chosen, plan: Plan = Plan()) -> list[Cell]:  # noqa: B008 (immutable)
    """The learning rates, tried where actions are greedy, with what was chosen for the layer."""
    return [
        cell
        for method, rate in product(METHODS, _RATES)
        for cell in _tried("greedy", method, rate, chosen[method]["sampling"]["layer"], plan)
    ]


def _tried(wanted: str, method: str, rate: float, layer: dict[str, Any], plan: Plan) -> Iterator[Cell]:
    for (task, choice), seed in product(SETTINGS, range(plan.tuning_seeds)):
        if choice == wanted:
            seed += _FIRST_TUNING_SEED
            yield _cell("cartpole-tuning", task, method, seed, choice, rate, layer, plan, tuning=True)


def cells(chosen: Chosen, plan: Plan = Plan()) -> list[Cell]:  # noqa: B008 (immutable)
    """The experiment itself, seed by seed, so that what is there after an interruption is a smaller experiment."""
    return [
        _cell("cartpole", task, method, seed, choice, given["learning_rate"], given["layer"], plan)
        for seed in range(plan.seeds)
        for (task, choice), method in product(SETTINGS, METHODS)
        for given in (chosen[method][choice],)
    ]


def _cell(
    experiment: str,
    task: str,
    method: str,
    seed: int,
    choice: str,
    rate: float,
    layer: dict[str, Any],
    plan: Plan,
    tuning: bool = False,
) -> Cell:
    settings = {
        "choice": choice,
        "episodes": plan.tuning_episodes if tuning else plan.episodes,
        "learning_rate": rate,
        "hidden_size": plan.hidden_size,
        "layer": layer,
    }
    return Cell(experiment, task, method, seed, settings, VERSION)


def compute(cell: Cell, folder: Path) -> Result:
    """Train one policy. Its curve is in ``folder`` as it grows, and then among the result's settings, by name."""
    with _one_thread():
        return _trained(cell, folder)[1]


@contextmanager
def _one_thread() -> Iterator[None]:
    """The steps are small: more threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _trained(cell: Cell, folder: Path) -> tuple[SequenceClassifier, Result]:
    began, given = time.perf_counter(), cell.settings
    task = find_task(cell.data)
    policy = make_policy(cell.method, task, hidden_size=given["hidden_size"], seed=cell.seed, settings=given["layer"])
    settings = Settings(episodes=given["episodes"], learning_rate=given["learning_rate"], choice=given["choice"])
    points = train(policy, task, settings, seed=cell.seed, folder=folder / cell.key)
    result = Result(
        experiment=cell.experiment,
        data=cell.data,
        method=cell.method,
        states=getattr(policy.layer, "num_states", None),
        seed=cell.seed,
        metrics=measure(points, GOAL / 50 * task.horizon if task.failing else math.inf),
        settings={**given, **asdict(settings), "horizon": task.horizon, "curves": thin(points)},
        seconds=round(time.perf_counter() - began, 2),
        versions={**versions(), "gymnasium": version("gymnasium")},
    )
    return policy, result


def measure(points: Sequence[Point], goal: float = GOAL, window: int = _WINDOW) -> dict[str, float]:
    """Area under the curve (mean reward of all episodes), the last 100 episodes, and when the goal was reached.

    The goal is reached when the mean of the last ``window`` episodes is at least ``goal``; there is no entry for it
    where that never happens.

    Example:
        >>> points = [Point(10 * n, 100 * n, 5.0 * n, 1.0, None, 0.0) for n in range(1, 11)]
        >>> measure(points, goal=30, window=20)
        {'area': 27.5, 'last': 27.5, 'episodes_to_goal': 70, 'steps_to_goal': 700}
    """
    rewards = np.array([point.reward for point in points])
    batch = points[0].episodes
    width = max(1, window // batch)
    found: dict[str, float] = {"area": float(rewards.mean()), "last": float(rewards[-max(1, 100 // batch) :].mean())}
    means = np.convolve(rewards, np.ones(width) / width, "valid") if len(rewards) >= width else np.empty(0)
    above = np.flatnonzero(means >= goal)
    if len(above):
        point = points[above[0] + width - 1]
        found |= {"episodes_to_goal": point.episodes, "steps_to_goal": point.steps}
    return found


def thin(points: Sequence[Point], window: int = _WINDOW) -> dict[str, list[float]]:
    """A curve as means over ``window`` episodes; episodes and steps are those at the end of each."""
    width = max(1, window // points[0].episodes)
    parts = [points[i : i + width] for i in range(0, len(points), width)]
    curves = {
        "episodes": [float(part[-1].episodes) for part in parts],
        "steps": [float(part[-1].steps) for part in parts],
        "reward": [round(float(np.mean([p.reward for p in part])), 2) for part in parts],
        "entropy": [round(float(np.mean([p.entropy for p in part])), 4) for part in parts],
    }
    if points[0].temperature is not None:
        curves["tau"] = [round(float(part[-1].temperature or 0), 4) for part in parts]
    return curves


def choose(results: Iterable[Result]) -> Chosen:
    """Of every method and choice of actions, what had the largest mean area in tuning."""
    areas: dict[tuple[str, str], dict[str, tuple[dict[str, Any], list[float]]]] = {}
    for result in results:
        setting = {"learning_rate": result.settings["learning_rate"], "layer": result.settings["layer"]}
        tried = areas.setdefault((result.method, result.settings["choice"]), {})
        tried.setdefault(repr(setting), (setting, []))[1].append(result.metrics["area"])
    chosen: Chosen = {}
    for (method, choice), tried in areas.items():
        best, _ = max(tried.values(), key=lambda pair: float(np.mean(pair[1])))
        chosen.setdefault(method, {})[choice] = best
    return chosen


def run(
    folder: Path,
    out: Path,
    plan: Plan = Plan(),  # noqa: B008 (immutable)
    *,
    workers: int = 1,
    progress: Callable[[Step], None] = lambda _: None,
) -> Outcome:
    """Tune, then run the experiment, then see what τ does; write one file of results for each.

    Args:
        folder: Folder of finished and unfinished cells; a run with the same folder resumes.
        out: Folder for results.
        plan: Size of the experiment.
        workers: Number of processes.
        progress: Callback, called with every cell.
    """
    tuning = run_cells(tuning_cells(plan), per_cell(compute), folder, workers=workers, progress=progress)
    if tuning.failures:
        return tuning
    greedy = greedy_tuning_cells(choose(tuning.results), plan)
    more = run_cells(greedy, per_cell(compute), folder, workers=workers, progress=progress)
    if more.failures:
        return more
    tuned = tuning.results + more.results
    write_results(map(_without_curves, tuned), out / "tuning.jsonl.gz")
    chosen = choose(tuned)
    outcome = run_cells(cells(chosen, plan), per_cell(compute), folder, workers=workers, progress=progress)
    write_results(outcome.results, out / "results.jsonl.gz")
    more = run_cells(
        temperature_cells(chosen, plan), per_cell(compute_temperature), folder, workers=workers, progress=progress
    )
    write_results(map(_without_curves, more.results), out / "temperature.jsonl.gz")
    return Outcome(outcome.results + more.results, outcome.failures + more.failures)


def _without_curves(result: Result) -> Result:
    return replace(result, settings={name: value for name, value in result.settings.items() if name != "curves"})


# -- what τ does -------------------------------------------------------------------------------------------------------

#: What the learned τ is multiplied with while a trained policy plays.
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def temperature_cells(chosen: Chosen, plan: Plan = Plan(), seeds: int = 5) -> list[Cell]:  # noqa: B008
    """ST-τ with a learned and with a fixed τ, sampling; trained, then played with colder and hotter states."""
    given = chosen["st-tau"]["sampling"]
    return [
        _cell(
            "cartpole-temperature",
            task,
            "st-tau",
            seed,
            choice,
            given["learning_rate"],
            given["layer"] | {"learn_temperature": learned},
            plan,
        )
        for (task, choice), learned, seed in product(SETTINGS, (True, False), range(min(seeds, plan.seeds)))
        if choice == "sampling"
    ]


def compute_temperature(cell: Cell, folder: Path) -> Result:
    """Train one policy, then play 100 episodes with τ times each of :data:`FACTORS`."""
    began = time.perf_counter()
    with _one_thread(), Environments(find_task(cell.data), 100) as environments:
        policy, result = _trained(cell, folder)
        metrics = dict(result.metrics)
        log_temperature = policy.finite_state_layer.state_dict()["log_temperature_l0"]  # shares its memory
        metrics["tau"] = math.exp(log_temperature.item())
        for factor in FACTORS:
            log_temperature.fill_(math.log(metrics["tau"] * factor))
            episodes = play(policy, environments, choice=cell.settings["choice"], seed=cell.seed, number=10**6)
            metrics[f"reward at {factor:g} τ"] = float(episodes.scores.mean())
            metrics[f"entropy at {factor:g} τ"] = episodes.entropy
    return replace(result, metrics=metrics, seconds=round(time.perf_counter() - began, 2))


# -- harder tasks ------------------------------------------------------------------------------------------------------

#: Tasks, and (method, choice), of a first look at longer episodes and at Acrobot without velocities.
HARDER = ("cartpole500-mdp", "cartpole500-pomdp", "acrobot-pomdp")
HARDER_METHODS = (("lstm", "sampling"), ("st-tau", "sampling"), ("st-tau", "greedy"))


def harder_cells(plan: Plan = Plan(seeds=5, episodes=500)) -> list[Cell]:  # noqa: B008 (immutable)
    """LSTM and ST-τ with the smaller learning rate; nothing is tuned."""
    return [
        _cell("cartpole-harder", task, method, seed, choice, _RATES[0], {}, plan)
        for task, seed, (method, choice) in product(HARDER, range(plan.seeds), HARDER_METHODS)
    ]


def run_harder(folder: Path, out: Path, *, progress: Callable[[Step], None] = lambda _: None) -> Outcome:
    """Run them; write ``harder.jsonl.gz`` to ``out``."""
    outcome = run_cells(harder_cells(), per_cell(compute), folder, progress=progress)
    write_results(map(_without_curves, outcome.results), out / "harder.jsonl.gz")
    return outcome
