"""Figures of the paper's experiments, drawn from results and summaries of predictions alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from sttau.data.heartbeats import CLASS_NAMES
from sttau.jobs import Result
from sttau.plotting.reliability import reliability_axes
from sttau.plotting.style import BLUE, GREEN, GRID, INK, MUTED, ORANGE, PURPLE, RED, look, method_color
from sttau_reproduction.classification.declaration import DATA, Column
from sttau_reproduction.classification.predictions import Summaries, Summary
from sttau_reproduction.classification.tables import cells_of, title_of, values_of

#: Colors of networks that are variants of a method.
COLORS = {
    "lstm-best": INK,
    "bayes-tuned": "#e07a7a",
    "dropout-tuned": "#f0b45a",
    "st-tau-classes": "#7fa8d6",
    "st-tau-classes-plain": "#7fbdb4",
    "st-tau-10": BLUE,
    "st-tau-10-plain": "#2c8579",
    "st-tau-100": "#0ea5a4",
    "st-tau-best": "#12355f",
    "st-tau-ensemble": "#c2418a",
    "lstm-best-ensemble": "#7a5532",
    "automaton": "#0f766e",
    "automata": "#0f766e",
    "automaton-memory": "#10a37f",
    "automata-memory": "#10a37f",
    "automata-distilled": "#65a30d",
    "dropout-best": "#b3471d",
    "dropout-paths": "#9aa0a6",
    "st-tau-64": "#8a4fd0",
    "lstm-patches": "#b08968",
    "laplace-patches": "#6b7f2a",
    "sp-gru-patches": "#9d174d",
}
#: Shapes, sizes and what lies above what; an LSTM trained as ST-τ may come to lie where that does.
_MARKS = {
    "st-tau-best": ("*", 190, 4),
    "lstm-best": ("D", 55, 3),
    "st-tau-ensemble": ("P", 90, 4),
    "lstm-best-ensemble": ("s", 60, 3),
    "automaton": ("^", 80, 4),
    "automata": ("^", 80, 4),
    "automaton-memory": ("v", 80, 4),
    "automata-memory": ("v", 80, 4),
    "automata-distilled": ("<", 80, 4),
}
_COLUMNS = 5
_plain = FuncFormatter(lambda value, _: f"{value:g}")


def reliability_figure(data: str, networks: Sequence[str], summaries: Summaries) -> Figure | None:
    """Reliability diagrams of one data set, first seed, with the number of predictions in each bin.

    Example:
        >>> reliability_figure("bih", ["lstm"], {}) is None  # there is nothing to draw
        True
    """
    found = _known(data, networks, summaries)
    if not found:
        return None
    columns = min(len(found), _COLUMNS)
    lines = -(-len(found) // columns)
    with look():
        figure = Figure(figsize=(3.1 * columns, 3.55 * lines), layout="constrained")
        grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
        for axes, (network, summary) in zip(grid.flat, found.items(), strict=False):
            ece, mce = (100 * summary.calibration).tolist()
            title = f"{fill(title_of(network, data), 26)}\nECE {ece:.2f} %, MCE {mce:.1f} %"
            reliability_axes(axes, summary.reliability, title, _color(network))
            axes.set_xlim(0.5 if summary.classes == 2 else 0, 1)
            axes.set_aspect("auto")
            axes.xaxis.set_major_formatter(_plain)
            axes.set_title(title, fontsize=10)
            axes.label_outer()
        for axes in grid.flat[len(found) :]:
            axes.set_visible(False)
        for axes in grid.flat[max(0, len(found) - columns) : len(found)]:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("confidence")
    return figure


def sweep_figure(
    networks: Mapping[str, Sequence[str]], metrics: Mapping[str, str], results: Sequence[Result]
) -> Figure | None:
    """Error and calibration of variational dropout against its rate when predicting, with ST-τ's lines.

    Args:
        networks: Networks by data set: the one that was evaluated with all rates, then those that are drawn as a line.
        metrics: Titles by key, one panel each.
        results: rows; rates come from the keys ``sweep_{rate}_{metric}``.

    Example:
        >>> swept = {f"sweep_0.{n}_pe": n + 1.0 for n in range(10)}
        >>> row = Result("paper", "bih", "dropout", None, 0, swept, {}, 1.0)
        >>> [axes.get_title("left") for axes in sweep_figure({"bih": ["dropout"]}, {"pe": "PE %"}, [row]).axes]
        ['Heartbeats (MIT-BIH): PE %']
    """
    shown = {data: names for data, names in networks.items() if sweep_rates(results, data, names[0])}
    if not shown:
        return None
    with look():
        figure = Figure(figsize=(3.7 * len(metrics), 3.0 * len(shown) + 0.4), layout="constrained")
        grid = figure.subplots(len(shown), len(metrics), squeeze=False, sharex=True)
        for panels, (data, (varied, *others)) in zip(grid, shown.items(), strict=True):
            (cell,) = cells_of(results, data, varied, 0)
            rates = sweep_rates(results, data, varied)
            for axes, (key, title) in zip(panels, metrics.items(), strict=True):
                swept = [cell.metrics.get(f"sweep_{rate}_{key}", np.nan) for rate in rates]
                label = title_of(varied, data)
                axes.plot([float(r) for r in rates], swept, color=_color(varied), marker="o", markersize=4, label=label)
                for name in others:
                    found = values_of(cells_of(results, data, name), key)
                    if found:
                        style: dict[str, Any] = {"linewidth": 1.5, "label": title_of(name, data)}
                        axes.axhline(float(np.mean(found)), color=_color(name), linestyle="--", **style)
                axes.set_title(f"{DATA[data]}: {title}" if axes is panels[0] else title)
                _logarithmic(axes)
                _gridded(axes)
            _legend(panels[0], fontsize=8, loc="best")
        for axes in grid[-1]:
            axes.set_xlabel("dropout rate when predicting")
    return figure


def sweep_rates(results: Sequence[Result], data: str, network: str) -> list[str]:
    """Rates that the first seed of a network was evaluated with, as the keys spell them.

    Example:
        >>> row = Result("paper", "bih", "dropout", None, 0, {"sweep_0.3_pe": 2.0, "pe": 1.5}, {}, 1.0)
        >>> sweep_rates([row], "bih", "dropout")
        ['0.3']
    """
    keys = (key.split("_") for cell in cells_of(results, data, network, 0) for key in cell.metrics)
    return sorted({parts[1] for parts in keys if parts[0] == "sweep"}, key=float)


def temperature_figure(networks: Mapping[str, Sequence[str]], summaries: Summaries) -> Figure | None:
    """The learned τ over training, first seed, by data set; networks whose τ is fixed are left out."""
    traces = {
        data: {
            name: summary.tau
            for name, summary in _known(data, names, summaries).items()
            if len(summary.tau) and np.ptp(summary.tau[:, 1]) > 0
        }
        for data, names in networks.items()
    }
    traces = {data: found for data, found in traces.items() if found}
    if not traces:
        return None
    with look():
        figure = Figure(figsize=(5.2 * len(traces), 3.6), layout="constrained")
        for axes, (data, found) in zip(figure.subplots(1, len(traces), squeeze=False)[0], traces.items(), strict=True):
            for name, trace in found.items():
                style = "--" if name.endswith("best") else "-"
                axes.plot(*trace.T, style, color=_color(name), linewidth=1.8, label=title_of(name, data))
            axes.axhline(1, color=MUTED, linewidth=0.8, linestyle=":")
            axes.set(xlabel="update", ylabel="τ")
            _logarithmic(axes)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            axes.set_title(DATA[data])
            _gridded(axes)
            _legend(axes, fontsize=8)
    return figure


def ablation_figure(
    data: str, networks: Mapping[str, Mapping[int, str]], columns: Mapping[str, str], results: Sequence[Result]
) -> Figure | None:
    """Detection over the number of states, with τ learned and fixed.

    Filled points are networks of seed 0, with error bars over their prediction runs; rings are those of other seeds.

    Args:
        data: Training data of the networks.
        networks: Names by number of states, for each kind of τ.
        columns: Titles of the metrics by key, one panel each.
        results: Results of the networks.

    Example:
        >>> row = Result("paper", "imdb", "st-tau-10", 10, 0, {"auroc": 80.0, "auroc_std": 0.5}, {}, 1.0)
        >>> figure = ablation_figure("imdb", {"learned": {10: "st-tau-10"}}, {"auroc": "AUROC %"}, [row])
        >>> figure.axes[0].get_legend_handles_labels()[1]
        ['τ learned']
    """
    if not any(cells_of(results, data, name, 0) for names in networks.values() for name in names.values()):
        return None
    with look():
        width = -(-len(columns) // 2)
        figure = Figure(figsize=(4.6 * width, 6.2), layout="constrained")
        grid = figure.subplots(2, width, squeeze=False, sharex=True)
        sizes = sorted({k for names in networks.values() for k in names})
        for axes, (key, title) in zip(grid.flat, columns.items(), strict=False):
            for (kind, names), color, shift in zip(networks.items(), (BLUE, ORANGE), (-0.04, 0.04), strict=False):
                points = [
                    (sizes.index(k) + shift, cell.metrics[key], cell.metrics.get(f"{key}_std", 0.0))
                    for k, name in sorted(names.items())
                    for cell in cells_of(results, data, name, seed=0)
                    if key in cell.metrics
                ]
                if points:
                    x, y, spread = zip(*points, strict=True)
                    axes.errorbar(x, y, spread, color=color, marker="o", markersize=5, capsize=3, label=f"τ {kind}")
                others = [
                    (sizes.index(k) + shift, cell.metrics[key])
                    for k, name in names.items()
                    for cell in cells_of(results, data, name)
                    if cell.seed and key in cell.metrics
                ]
                if others:
                    axes.scatter(*zip(*others, strict=True), s=22, facecolors="none", edgecolors=color, alpha=0.6)
            axes.set_title(title)
            axes.set_xticks(range(len(sizes)), [str(k) for k in sizes])
            _gridded(axes)
        for axes in grid[-1]:
            axes.set_xlabel("number of states k")
        _legend(grid[0, 0])
    return figure


def heartbeat_figure(networks: Sequence[str], summaries: Summaries, traces: Traces) -> Figure | None:
    """What networks believe while they read heartbeats: mean over samples, and the middle 80 % of them.

    Args:
        networks: Networks, one row of panels each, with their examples.
        summaries: Summaries of predictions.
        traces: Function from a test row to its trace, or None where the data is not available.
    """
    found = {name: summary for name, summary in _known("bih", networks, summaries).items() if summary.reading.size}
    if not found:
        return None
    drawn = {int(row): traces(int(row)) for summary in found.values() for row in summary.reading_rows}
    above = any(trace is not None for trace in drawn.values())
    heights = ([0.45] * above + [1.0]) * len(found)
    columns = max(len(summary.reading_rows) for summary in found.values())
    with look():
        figure = Figure(figsize=(4.7 * columns + 0.8, 2.5 * sum(heights) + 0.6), layout="constrained")
        shape = (len(heights), columns)
        grid = figure.subplots(*shape, squeeze=False, sharex=True, sharey="row", height_ratios=heights)
        for line, (name, summary) in enumerate(found.items()):
            panels = grid[line * (1 + above) : (line + 1) * (1 + above)]
            panels[-1, 0].set_ylabel("probability")
            for n, row in enumerate(summary.reading_rows.tolist()):
                true = CLASS_NAMES[int(summary.reading_labels[n])]
                panels[0, n].set_title(f"{title_of(name, 'bih')}: test beat {row}, class {true}")
                if above:
                    trace = drawn[row]
                    panels[0, n].set(yticks=[], ylabel="ECG" if n == 0 else "")
                    if trace is not None:
                        panels[0, n].plot(np.arange(1, len(trace) + 1), trace, color=INK, linewidth=1.2)
                for number, color in enumerate((BLUE, ORANGE, RED, PURPLE, GREEN)):
                    _band(panels[-1, n], summary.reading[:, n, :, number], color, CLASS_NAMES[number])
                panels[-1, n].set_ylim(-0.03, 1.03)
        for axes in grid[-1]:
            axes.set_xlabel("points read")
        _legend(grid[int(above), -1], fontsize=9, title="class", loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def sentence_figure(networks: Sequence[str], summaries: Summaries) -> Figure | None:
    """What networks believe word by word: the probability of "positive", and the middle 80 % of samples."""
    found = {name: summary for name, summary in _known("imdb", networks, summaries).items() if summary.reading.size}
    if not found:
        return None
    texts = [[str(word) for word in line if word] for line in next(iter(found.values())).reading_words]
    with look():
        width = 0.42 * max(map(len, texts)) + 1.2
        figure = Figure(figsize=(max(7.0, width), 2.7 * len(texts)), layout="constrained")
        for n, (axes, words) in enumerate(zip(figure.subplots(len(texts), 1, squeeze=False)[:, 0], texts, strict=True)):
            for name, summary in found.items():
                _band(axes, summary.reading[:, n, : len(words), 1], _color(name), title_of(name, "imdb"), "o")
            axes.axhline(0.5, color=MUTED, linewidth=0.8, linestyle=":")
            axes.set_xticks(range(1, len(words) + 1), words, rotation=40, ha="right", rotation_mode="anchor", color=INK)
            axes.set(ylim=(-0.03, 1.03), xlim=(0.5, len(words) + 0.5), ylabel="p(positive)")
            if n == 0:
                axes.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(found))
    return figure


def tradeoff_figure(
    networks: Mapping[str, Sequence[str]], x: Column, y: Column, results: Sequence[Result]
) -> Figure | None:
    """One metric against another, a panel for each data set: seeds as dots, their mean as a large one.

    Example:
        >>> rows = [Result("paper", "bih", "lstm", None, n, {"pe": 1.4 + n, "ece": 0.8}, {}, 1.0) for n in range(2)]
        >>> figure = tradeoff_figure({"bih": ["lstm"]}, Column("pe", "PE %", 2), Column("ece", "ECE %", 2), rows)
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('PE %', 'ECE %')
    """
    shown = [data for data, names in networks.items() if any(cells_of(results, data, name) for name in names)]
    if not shown:
        return None
    with look():
        figure = Figure(figsize=(5.6 * len(shown), 4.6), layout="constrained")
        for axes, data in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            for name in networks[data]:
                found = [cell.metrics for cell in cells_of(results, data, name) if {x.key, y.key} <= set(cell.metrics)]
                if not found:
                    continue
                points = np.array([(metrics[x.key], metrics[y.key]) for metrics in found])
                axes.scatter(*points.T, s=12, color=_color(name), alpha=0.5, linewidths=0, zorder=2)
                mean = points.mean(0)
                mark, size, above = _MARKS.get(name, ("o", 75, 3))
                look_of: dict[str, Any] = {"s": size, "marker": mark, "color": _color(name), "edgecolors": "white"}
                axes.scatter(*mean, label=title_of(name, data), linewidths=0.8, zorder=above, **look_of)
            axes.set(xlabel=x.title, ylabel=y.title, xscale="log", yscale="log")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
                axis.set_major_formatter(_plain)
                axis.set_minor_formatter(NullFormatter())
            axes.set_title(DATA[data])
            axes.grid(color=GRID, linewidth=0.8)
            axes.set_axisbelow(True)
            axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def risk_coverage_figure(data: str, networks: Sequence[str], summaries: Summaries) -> Figure | None:
    """Risk–coverage curves: error of the predictions kept when the least confident are rejected, first seed."""
    found = _known(data, networks, summaries)
    if not found:
        return None
    with look():
        figure = Figure(figsize=(8.2, 4.2), layout="constrained")
        axes = figure.subplots()
        shown = []
        for name, summary in found.items():
            label = f"{title_of(name, data)}: AURC {100 * float(summary.area):.2f} %"
            style = "--" if name == "lstm-best" else "-"
            coverage, risk = 100 * summary.coverage, 100 * summary.risk
            axes.plot(coverage, risk, style, color=_color(name), linewidth=1.5, label=label)
            shown.append((coverage, risk))
        worst = max(risk[-1] for _, risk in shown)
        notable = [coverage[risk > 0.1 * worst] for coverage, risk in shown]
        first = min((part[0] for part in notable if len(part)), default=0.0)
        left = 10 * min(9, int(first / 10))  # to the left of that nearly nothing is wrong
        axes.set(xlim=(left, 100), ylim=(0, 1.05 * worst or 1), xlabel="coverage, %", ylabel="risk: error, %")
        axes.set_title(f"{DATA[data]}: rejecting the least confident predictions")
        _gridded(axes)
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


#: The trace of a test row of BIH, or None.
Traces = Callable[[int], NDArray[Any] | None]


def _known(data: str, networks: Sequence[str], summaries: Summaries) -> dict[str, Summary]:
    """Summaries of the networks that have one."""
    return {name: summaries[data, name] for name in networks if (data, name) in summaries}


def _color(network: str) -> str:
    return COLORS.get(network) or method_color(network)


def _band(axes: Axes, band: NDArray[Any], color: str, label: str, marker: str = "") -> None:
    """Draw the mean, and the band that holds the middle 80 % of samples, of (3, time) mean, low and high."""
    mean, low, high = band
    steps = np.arange(1, len(mean) + 1)
    axes.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)
    axes.plot(steps, mean, color=color, linewidth=1.5, marker=marker or None, markersize=3.5, label=label)


def _logarithmic(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(_plain)
    axes.yaxis.set_minor_formatter(NullFormatter())


def _gridded(axes: Axes) -> None:
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _legend(axes: Axes, **options: Any) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, **options)
