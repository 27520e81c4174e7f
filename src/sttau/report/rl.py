"""Tables and pictures of reinforcement learning; ``python -m sttau.report.rl`` makes those of the docs."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Sequence
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sttau.automata import PA
from sttau.experiments.cartpole import (
    FACTORS,
    GOAL,
    HARDER,
    HARDER_METHODS,
    METHODS,
    SETTINGS,
    Estimate,
    bootstrap,
    choose,
    interquartile_mean,
    median,
    select,
    values,
)
from sttau.files import write_atomically
from sttau.jobs import Result, read_results
from sttau.models import FixedLabels, SequenceClassifier
from sttau.plotting.automaton import save_drawing, write_automaton
from sttau.plotting.style import BLUE, INK, MUTED, ORANGE, look, method_color, method_title
from sttau.rl import Environments, Episodes, Settings, Task, find_task, make_policy, play, train
from sttau.tables import markdown_table

CARTPOLE = ("setting", "method", "area", "last 100", "reached 45", "episodes to 45", "steps to 45")
OVERALL = ("method", "IQM of the area", "IQM of the last 100")
TUNED = ("method", "learning rate, sampling", "learning rate, greedy", "layer")
TEMPERATURE = ("setting", "τ", "area", "τ at the end", *(f"reward at {factor:g} τ" for factor in FACTORS))
ENTROPY = ("setting", "τ", *(f"bits at {factor:g} τ" for factor in FACTORS))

REFERENCE = ("task", "episodes", "steps", "last 100", "episodes to 45", "steps to 45")
HARDER_HEADER = ("task", "method", "area, each run", "last 100, each run")


def setting_name(task: str, choice: str) -> str:
    """For people.

    Example:
        >>> setting_name("cartpole-pomdp", "greedy")
        'POMDP, greedy'
    """
    return f"{task.rpartition('-')[2].upper()}, {choice}"


def cartpole_table(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Every method in every setting: means, and medians of times, with 95% intervals over seeds."""
    rows = []
    for task, choice in SETTINGS:
        for method in METHODS:
            found = select(results, data=task, choice=choice, method=method)
            if not found:
                continue
            times = [values(found, name) for name in ("episodes_to_goal", "steps_to_goal")]
            reached = sum(math.isfinite(value) for value in times[0])
            rows.append(
                (
                    setting_name(task, choice),
                    method_title(method),
                    *(_shown(bootstrap([values(found, name)])) for name in ("area", "last")),
                    f"{reached} of {len(found)}",
                    *(_shown(bootstrap([part], median), "{:,.0f}") for part in times),
                )
            )
    return rows


def overall_table(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Interquartile means over all settings and seeds, with intervals of a bootstrap that is stratified by setting."""
    rows = []
    for method in METHODS:
        found = [select(results, data=task, choice=choice, method=method) for task, choice in SETTINGS]
        if all(found):
            names = ("area", "last")
            cells = (bootstrap([values(part, name) for part in found], interquartile_mean) for name in names)
            rows.append((method_title(method), *map(_shown, cells)))
    return rows


def tuned_table(tuning: Iterable[Result]) -> list[tuple[str, ...]]:
    """What was chosen for each method."""
    return [
        (
            method_title(method),
            *(f"{chosen[choice]['learning_rate']:g}" for choice in ("sampling", "greedy")),
            ", ".join(f"{name} {value:g}" for name, value in chosen["sampling"]["layer"].items()) or "–",
        )
        for method, chosen in choose(tuning).items()
    ]


def temperature_tables(results: Sequence[Result]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Learned and fixed τ, and rewards and entropies of trained policies that play colder and hotter."""
    rewards, entropies = [], []
    for (task, choice), learned in ((s, learned) for s in SETTINGS for learned in (True, False)):
        found = [
            result
            for result in select(results, data=task, choice=choice)
            if result.settings["layer"]["learn_temperature"] == learned
        ]
        if found:
            name = (setting_name(task, choice), "learned" if learned else "fixed")
            first = (_shown(bootstrap([values(found, "area")])), f"{np.mean(values(found, 'temperature')):.2f}")
            parts = [
                [f"{np.mean(values(found, f'{what} at {factor:g} τ')):.{digits}f}" for factor in FACTORS]
                for what, digits in (("reward", 1), ("entropy", 2))
            ]
            rewards.append((*name, *first, *parts[0]))
            entropies.append((*name, *parts[1]))
    return rewards, entropies


def harder_table(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Longer episodes, and Acrobot: every run, because there are few."""
    rows = []
    for task, (method, choice) in product(HARDER, HARDER_METHODS):
        found = select(results, data=task, choice=choice, method=method)
        if found:
            spans = (", ".join(f"{value:.0f}" for value in sorted(values(found, name))) for name in ("area", "last"))
            rows.append((task, f"{method_title(method)}, {choice}", *spans))
    return rows


def reference_table(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Runs of a foreign implementation, by ``benchmarks/recurrent_ppo.py``."""
    return [
        (
            result.data,
            f"{result.metrics['episodes']:,.0f}",
            f"{result.settings['steps']:,}",
            f"{result.metrics['last']:.1f}",
            *(
                _number(value, "{:,.0f}")
                for name in ("episodes", "steps")
                for value in values([result], f"{name}_to_goal")
            ),
        )
        for result in results
    ]


def tables(folder: Path) -> dict[str, str]:
    """All tables as Markdown, by name."""
    results, tuning, temperature = (
        read_results(folder / f"{name}.jsonl") for name in ("results", "tuning", "temperature")
    )
    rewards, entropies = temperature_tables(temperature)
    harder, reference = (
        read_results(path) if path.exists() else []
        for path in (folder / "harder.jsonl", folder / "recurrent_ppo.jsonl")
    )
    return {
        "cartpole": markdown_table(cartpole_table(results), CARTPOLE),
        "overall": markdown_table(overall_table(results), OVERALL),
        "tuned": markdown_table(tuned_table(tuning), TUNED),
        "temperature": markdown_table(rewards, TEMPERATURE),
        "entropy": markdown_table(entropies, ENTROPY),
        **({"harder": markdown_table(harder_table(harder), HARDER_HEADER)} if harder else {}),
        **({"reference": markdown_table(reference_table(reference), REFERENCE)} if reference else {}),
    }


def _shown(estimate: Estimate, form: str = "{:.1f}") -> str:
    value, low, high = (_number(number, form) for number in estimate)
    return value if math.isinf(estimate.low) else f"{value} [{low}, {high}]"


def _number(value: float, form: str) -> str:
    return form.format(value) if math.isfinite(value) else "never"


# -- figures -----------------------------------------------------------------------------------------------------------


def curves_figure(results: Sequence[Result]) -> Figure:
    """Average cumulative reward over episodes in the four settings, with 95% intervals over seeds."""
    with look():
        figure = Figure(figsize=(11, 6.4), layout="constrained")
        grid = figure.subplots(2, 2, sharex=True, sharey=True)
        for axes, (task, choice) in zip(grid.flat, SETTINGS, strict=True):
            axes.axhline(GOAL, color=MUTED, linewidth=0.8, linestyle=":")
            for method in METHODS:
                found = select(results, data=task, choice=choice, method=method)
                if found:
                    episodes, rewards = _curve(found, "episodes"), _curve(found, "reward")
                    _band(axes, episodes[0], rewards, method_color(method), method_title(method))
            axes.set_title(setting_name(task, choice))
            axes.set_ylim(0, 51)
        for axes in grid[1]:
            axes.set_xlabel("episodes")
        for axes in grid[:, 0]:
            axes.set_ylabel("cumulative reward")
        grid[0, 0].legend(frameon=False, loc="lower right")
    return figure


def temperature_figure(results: Sequence[Result]) -> Figure:
    """τ of ST-τ over training, and the entropy of actions of ST-τ and LSTM, in the four settings."""
    with look():
        figure = Figure(figsize=(11, 3.8), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        for (task, choice), color in zip(SETTINGS, (BLUE, "#7fa8d6", ORANGE, "#f0b769"), strict=True):
            found = select(results, data=task, choice=choice, method="st-tau")
            if not found:
                continue
            name, episodes = setting_name(task, choice), _curve(found, "episodes")[0]
            _band(left, episodes, _curve(found, "temperature"), color, name)
            _band(middle, episodes, _curve(found, "entropy"), color, name)
            for result in found:
                curves = result.settings["curves"]
                right.plot(curves["temperature"], curves["entropy"], color=color, alpha=0.25, linewidth=0.8)
        plain = select(results, data="cartpole-mdp", choice="sampling", method="lstm")
        if plain:
            _band(middle, _curve(plain, "episodes")[0], _curve(plain, "entropy"), INK, "LSTM, MDP, sampling")
        for axes, title, x in (
            (left, "τ", "episodes"),
            (middle, "entropy of an action, bits", "episodes"),
            (right, "entropy against τ, each run", "τ"),
        ):
            axes.set_title(title)
            axes.set_xlabel(x)
        left.legend(frameon=False, fontsize=8)
        middle.legend(frameon=False, fontsize=8)
    return figure


def _curve(results: Sequence[Result], name: str) -> NDArray[np.float64]:
    return np.array([result.settings["curves"][name] for result in results])


def _band(axes: Any, x: NDArray[np.float64], runs: NDArray[np.float64], color: str, name: str) -> None:
    """A mean over seeds and its 95% interval at every point."""
    estimates = np.array([bootstrap([point.tolist()], draws=500) for point in runs.T])
    axes.plot(x, estimates[:, 0], color=color, label=name)
    axes.fill_between(x, estimates[:, 1], estimates[:, 2], color=color, alpha=0.18, linewidth=0)


# -- watching ----------------------------------------------------------------------------------------------------------


def write_video(frames: Sequence[NDArray[np.uint8]], path: str | os.PathLike[str], fps: int = 50) -> Path:
    """Write pictures, each (height, width, 3), as an animated GIF.

    Example:
        >>> import tempfile
        >>> frames = [np.full((4, 4, 3), shade, dtype=np.uint8) for shade in (0, 255)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_video(frames, f"{folder}/video.gif").read_bytes()[:6]
        b'GIF89a'
    """
    if Path(path).suffix.lower() != ".gif":
        raise ValueError(f"a video is written as .gif, got {Path(path).name!r}")
    if not frames:
        raise ValueError("frames are empty: there is nothing to show")
    from PIL import Image

    first, *rest = (Image.fromarray(frame) for frame in frames)
    buffer = BytesIO()
    first.save(buffer, "GIF", save_all=True, append_images=rest, duration=max(20, 1000 // fps), loop=0)
    return write_atomically(path, buffer.getvalue())


def observed_automaton(policy: SequenceClassifier, episodes: Episodes, task: Task, by: str = "") -> PA:
    """The automaton that a policy with one state an action was seen to be, while it played.

    Its symbols are the signs of one observation; it moves from the most probable state at a step to that at the next,
    and ``output`` is how often the last of the task's actions was done in a state. What the states do not remember (an
    LSTM's memory, the size of the observation) shows as chance.

    Args:
        policy: made with a state for every action.
        episodes: that it played.
        task: for the names.
        by: the observation whose sign is read; the angle, or else the first.
    """
    if not isinstance(policy.head, FixedLabels):
        raise ValueError("an automaton needs a policy whose states are its actions: ST-τ with a state for each")
    names = task.observations
    by = by or ("angle" if "angle" in names else names[0])
    if by not in names:
        raise ValueError(f"{task.name} shows no {by!r}; choose one of {', '.join(names)}")
    k = len(task.actions)
    states = episodes.probabilities.argmax(-1)
    signs = (episodes.observations[..., names.index(by)] > 0).long()
    counts = torch.zeros(2, k, k, dtype=torch.float64)
    done, visits = torch.zeros(k, dtype=torch.float64), torch.zeros(k, dtype=torch.float64)
    first = torch.zeros(k, dtype=torch.float64)
    for row, length in enumerate(episodes.lengths.tolist()):
        path = states[row, :length]
        first[path[0]] += 1
        counts.index_put_((signs[row, 1:length], path[:-1], path[1:]), torch.ones(1).double(), accumulate=True)
        visits.index_put_((path,), torch.ones(1).double(), accumulate=True)
        done.index_put_((path,), (episodes.actions[row, :length] == k - 1).double(), accumulate=True)
    unseen = counts.sum(-1, keepdim=True) == 0
    counts = torch.where(unseen, torch.ones_like(counts), counts)  # never seen: anything may follow
    return PA(
        first / first.sum(), counts / counts.sum(-1, keepdim=True), done / visits.clamp_min(1), (f"{by} −", f"{by} +")
    )


def main(arguments: Sequence[str]) -> None:
    """``python -m sttau.report.rl [FOLDER] [IMAGES]``: print the tables, write the pictures."""
    folder = Path(arguments[0]) if arguments else Path("results") / "cartpole"
    images = Path(arguments[1]) if len(arguments) > 1 else Path("docs") / "images"
    for name, table in tables(folder).items():
        sys.stdout.write(f"## {name}\n\n{table}\n\n")
    results = read_results(folder / "results.jsonl")
    save_drawing(curves_figure(results), images / "cartpole-curves.png")
    save_drawing(temperature_figure(results), images / "cartpole-temperature.png")
    task = find_task("cartpole-pomdp")
    policy = make_policy("st-tau", task)
    train(policy, task, Settings(choice="greedy"))
    with Environments(task, copies=200) as environments:
        played = play(policy, environments, choice="greedy", seed=1)
    title = f"CartPole without velocities, mean reward {played.scores.mean():.1f}"
    write_automaton(observed_automaton(policy, played, task), images / "cartpole-automaton.png", title)


if __name__ == "__main__":
    main(sys.argv[1:])
