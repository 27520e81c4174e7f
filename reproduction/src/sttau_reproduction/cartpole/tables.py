"""Tables of the CartPole experiment, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from sttau.jobs import Result, read_results
from sttau.plotting.style import method_title
from sttau.tables import markdown_table
from sttau_reproduction.cartpole.statistics import Estimate, bootstrap, interquartile_mean, median, select, values
from sttau_reproduction.cartpole.work import FACTORS, HARDER, HARDER_METHODS, METHODS, SETTINGS, choose

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
            first = (_shown(bootstrap([values(found, "area")])), f"{np.mean(values(found, 'tau')):.2f}")
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
    """Runs of another implementation, by ``benchmarks/recurrent_ppo.py``."""
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
        read_results(folder / name) for name in ("results.jsonl.gz", "tuning.jsonl.gz", "temperature.jsonl.gz")
    )
    rewards, entropies = temperature_tables(temperature)
    harder, reference = (
        read_results(path) if path.exists() else []
        for path in (folder / "harder.jsonl.gz", folder / "recurrent_ppo.jsonl")
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
