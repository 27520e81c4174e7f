"""Figures of the experiment on automata, drawn from saved values."""

from __future__ import annotations

from matplotlib.figure import Figure

from sttau.automata import PA, stochastic
from sttau.plotting.automaton import draw_automaton
from sttau.plotting.style import look
from sttau_reproduction.automata.snapshots import Snapshot, Snapshots


def training_figure(early: Snapshot, late: Snapshot) -> Figure:
    """An automaton while a network is still learning it, and at the end (the paper's Figure 8)."""
    with look():
        figure = Figure(figsize=(12, 2.8), layout="constrained")
        for axes, snapshot in zip(figure.subplots(1, 2), (early, late), strict=True):
            draw_automaton(
                axes,
                snapshot.dfa,
                f"after {snapshot.update:,} updates, τ = {snapshot.tau:.2f}",
                probabilities=snapshot.probabilities,
                variances=snapshot.variances,
            )
    return figure


def languages_figure(learned: dict[int, PA]) -> Figure:
    """The true PAs above, those that were learned below."""
    with look():
        figure = Figure(figsize=(10, 8), layout="constrained")
        grid = figure.subplots(2, len(learned), squeeze=False)
        for column, (number, pa) in enumerate(learned.items()):
            draw_automaton(grid[0, column], stochastic(number), f"PA-{number}")
            draw_automaton(grid[1, column], pa, f"PA-{number}, learned from ten labels per string")
    return figure


def draw(snapshots: Snapshots) -> dict[str, Figure]:
    """All figures, by name."""
    return {
        "tomita3-training": training_figure(snapshots.early, snapshots.late),
        "stochastic-learned": languages_figure(snapshots.learned),
    }
