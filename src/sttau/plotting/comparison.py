"""Figure of a comparison: one panel per metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sttau.jobs import Result
from sttau.plotting.style import GRID, INK, MUTED, method_color, method_title

_COLUMNS = 4


def comparison_figure(
    rows: Sequence[Mapping[str, Any]],
    results: Sequence[Result],
    metrics: Mapping[str, tuple[str, str | None]],
    reference: str,
) -> Figure:
    """Draw value, interval and seeds of every method, and a line at the value of the reference.

    Args:
        rows: Rows of a comparison, with method, metric, value, low, high and mark.
        results: Results of the single networks, drawn as dots.
        metrics: Title and direction (``min``, ``max`` or None) of each metric, one panel each.
        reference: Method whose value the line shows.

    Example:
        >>> row = {"method": "lstm", "metric": "nll", "value": 0.2, "low": 0.1, "high": 0.3, "mark": ""}
        >>> figure = comparison_figure([row], [], {"nll": ("NLL", "min")}, "lstm")
        >>> figure.axes[0].get_title()
        'NLL ↓'
    """
    methods = list(dict.fromkeys(row["method"] for row in rows))
    columns = min(_COLUMNS, len(metrics))
    lines = math.ceil(len(metrics) / columns)
    height = 0.3 * len(methods) + 0.9
    figure = Figure(figsize=(3.1 * columns + 1.2, lines * height), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharey=True).flatten()
    for axes, (metric, (title, goal)) in zip(panels, metrics.items(), strict=False):
        for row in rows:
            if row["metric"] != metric:
                continue
            place, color = methods.index(row["method"]), method_color(_plain(row["method"]))
            if row["low"] is not None:
                axes.plot(
                    [row["low"], row["high"]],
                    [place] * 2,
                    color=color,
                    linewidth=5,
                    alpha=0.35,
                    solid_capstyle="butt",
                    zorder=2,
                )
            seeds = [r.metrics[metric] for r in results if r.method == row["method"] and metric in r.metrics]
            axes.scatter(seeds, [place] * len(seeds), s=9, color=color, alpha=0.6, linewidths=0, zorder=3)
            axes.scatter([row["value"]], [place], s=42, color=color, edgecolors="white", linewidths=0.8, zorder=4)
            axes.annotate(
                row["mark"],
                (row["value"], place),
                xytext=(0, 5),
                textcoords="offset points",
                ha="center",
                fontsize=7,
                color=INK,
            )
            if row["method"] == reference:
                axes.axvline(row["value"], color=MUTED, linewidth=1, linestyle="--", zorder=1)
        axes.set_title(f"{title} {'↓' if goal == 'min' else '↑' if goal == 'max' else ''}".rstrip())
        if metric in ("seconds", "predict_ms"):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_ylim(len(methods) - 0.5, -0.6)
    names = [_name(method) for method in methods]
    panels[0].set_yticks(range(len(methods)), names)
    for axes in panels[len(metrics) :]:
        axes.set_visible(False)
    return figure


def _plain(method: str) -> str:
    """Return the method without the suffix of scaling."""
    return method.removesuffix(" + scaling")


def _name(method: str) -> str:
    name = method_title(_plain(method))
    return f"{name} + scaling" if method != _plain(method) else name
