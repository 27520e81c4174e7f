"""Figures of the CartPole experiment, drawn from results alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sttau.jobs import Result, read_results
from sttau.plotting.automaton import drawing
from sttau.plotting.style import BLUE, INK, MUTED, ORANGE, look, method_color, method_title
from sttau_reproduction.cartpole.policy import read_automaton_of_policy
from sttau_reproduction.cartpole.statistics import bootstrap, curve_of, select
from sttau_reproduction.cartpole.tables import setting_name
from sttau_reproduction.cartpole.work import GOAL, METHODS, SETTINGS


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
            _band(left, episodes, _curve(found, "tau"), color, name)
            _band(middle, episodes, _curve(found, "entropy"), color, name)
            for result in found:
                right.plot(curve_of(result, "tau"), curve_of(result, "entropy"), color=color, alpha=0.25, linewidth=0.8)
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
    return np.array([curve_of(result, name) for result in results])


def _band(axes: Any, x: NDArray[np.float64], runs: NDArray[np.float64], color: str, name: str) -> None:
    """A mean over seeds and its 95% interval at every point."""
    estimates = np.array([bootstrap([point.tolist()], draws=500) for point in runs.T])
    axes.plot(x, estimates[:, 0], color=color, label=name)
    axes.fill_between(x, estimates[:, 1], estimates[:, 2], color=color, alpha=0.18, linewidth=0)


def draw(folder: Path) -> dict[str, Figure]:
    """All figures that a folder has values for, by name."""
    results = read_results(folder / "results.jsonl.gz")
    figures = {"cartpole-curves": curves_figure(results), "cartpole-temperature": temperature_figure(results)}
    path = folder / "automaton.json"
    if path.exists():
        observed = read_automaton_of_policy(path)
        title = f"CartPole without velocities, mean reward {observed.reward:.1f}"
        figures["cartpole-automaton"] = drawing(observed.automaton, title)
    return figures
