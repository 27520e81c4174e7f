"""Figures of quality against cost, and of calibration over the severity of corruptions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sttau.jobs import Result
from sttau.plotting.style import GRID, MUTED, look, method_color
from sttau_reproduction.classification import cost
from sttau_reproduction.classification.declaration import DATA
from sttau_reproduction.classification.diagnostics.corruptions import SEVERITIES
from sttau_reproduction.classification.diagnostics.tables import COMPARED, CORRUPTIONS
from sttau_reproduction.classification.drawing import COLORS
from sttau_reproduction.classification.tables import cells_of, title_of, values_of

_MARKERS = "oDsv^*P<>pXdhH"
_plain = FuncFormatter(lambda value, _: f"{value:g}")


def cost_figure(data: str, results: Sequence[Result]) -> Figure | None:
    """NLL, error, ECE and AURC against the time of training and of prediction; ensembles are joined to their members.

    Example:
        >>> cost_figure("bih", []) is None  # there is nothing to draw
        True
    """
    names = cost.TABLES[0].networks[data]
    means = cost.means_of(cost.with_member_costs(results), data, names)
    if not means:
        return None
    with look():
        shape = len(cost.COSTS), len(cost.QUALITIES)
        figure = Figure(figsize=(3.0 * shape[1], 2.9 * shape[0] + 0.8), layout="constrained")
        grid = figure.subplots(*shape, squeeze=False, sharex="row", sharey="col")
        for line, price in zip(grid, cost.COSTS, strict=True):
            for axes, quality in zip(line, cost.QUALITIES, strict=True):
                points = {name: (values[price.key], values[quality.key]) for name, values in means.items()}
                best = [points[name] for name in cost.front(points)]
                axes.plot(*zip(*best, strict=True), color=MUTED, linewidth=1, drawstyle="steps-post", zorder=1)
                for (kind, members), marker in zip(cost.KINDS.items(), _MARKERS, strict=False):
                    found = [points[name] for name in members if name in points]
                    if found:
                        color = _color(members[0])
                        axes.plot(*zip(*found, strict=True), marker, ls=":", color=color, markersize=6, label=kind)
                axes.set_xscale("log")
                axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
                axes.xaxis.set_major_formatter(_plain)
                axes.xaxis.set_minor_formatter(NullFormatter())
                axes.set_title(quality.title)
                axes.set_xlabel(price.title)
                axes.grid(color=GRID, linewidth=0.8)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def corruption_figure(diagnostics: Sequence[Result]) -> Figure | None:
    """ECE of each network over the severity of each corruption; 0 is the data as it is.

    Example:
        >>> corruption_figure([]) is None
        True
    """
    shown = {data: kinds for data, kinds in CORRUPTIONS.items() if _known(diagnostics, data)}
    if not shown:
        return None
    with look():
        columns = max(map(len, shown.values()))
        figure = Figure(figsize=(3.0 * columns + 2.6, 3.0 * len(shown)), layout="constrained")
        parts = figure.subfigures(len(shown), 1, squeeze=False)[:, 0]
        for part, (data, kinds) in zip(parts, shown.items(), strict=True):
            line = part.subplots(1, len(kinds), squeeze=False)[0]
            for axes, (kind, title) in zip(line, kinds.items(), strict=True):
                start = "ece" if kind == "classes" else "clean_0_ece"
                for name, marker in zip(_known(diagnostics, data), cycle(_MARKERS), strict=False):
                    keys = (start, *(f"{kind}_{severity}_ece" for severity in SEVERITIES))
                    rows = cells_of(diagnostics, data, name)
                    values = [float(np.mean(values_of(rows, key))) for key in keys]
                    label = title_of(name, data)
                    axes.plot((0, *SEVERITIES), values, marker=marker, markersize=4, color=_color(name), label=label)
                axes.set_title(f"{DATA[data]}\n{title}" if axes is line[0] else title)
                axes.set_xlabel("severity")
                axes.set_ylim(bottom=0)
                axes.grid(axis="y", color=GRID, linewidth=0.8)
            line[0].set_ylabel("ECE, %")
            line[-1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _known(diagnostics: Sequence[Result], data: str) -> list[str]:
    """Compared networks that there are results of."""
    return [name for name in COMPARED if cells_of(diagnostics, data, name)]


def _color(network: str) -> str:
    return COLORS.get(network) or method_color(network)
