"""Figures of the regression on household power, drawn from ``hours.jsonl.gz``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import mean

from matplotlib.figure import Figure

from sttau.plotting.style import GRID, INK, MUTED, look, method_color
from sttau_reproduction.power.evaluation import BINS
from sttau_reproduction.power.shown import BANDS, DAYS, ERRORS, PIT, Hours
from sttau_reproduction.power.tables import title_of

_TAIL = 1.96  # standard deviations on either side hold 95 %

_COLORS = {"automaton": "#0f766e"}  # of what is no method of the library


def _color(name: str) -> str:
    method = name.partition(",")[0]
    return _COLORS.get(method) or method_color(method)


def errors_figure(hours: Iterable[Hours]) -> Figure:
    """The paper's figure: squared error over the first 100 test hours, with a band over the samples.

    The line is the mean over runs. The band holds the squared errors of predictions within one standard deviation, over
    Monte Carlo samples, of the one that was made.
    """
    groups: dict[str, list[Hours]] = defaultdict(list)
    for line in hours:
        if line["setting"] == "paper":
            groups[line["name"]].append(line)
    with look():
        figure = Figure(figsize=(9, 1.25 * len(groups) + 0.6), layout="constrained")
        panels = figure.subplots(len(groups), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (name, lines) in zip(panels, groups.items(), strict=True):
            middle = [mean(column) for column in zip(*(line["squared_error"] for line in lines), strict=True)][:ERRORS]
            highs, lows = (zip(*(line["bands"][end] for line in lines), strict=True) for end in ("97.5", "2.5"))
            deviations = [(mean(high) - mean(low)) / (2 * _TAIL) for high, low in zip(highs, lows, strict=True)]
            x = range(1, len(middle) + 1)
            pairs = list(zip(middle, deviations, strict=False))
            low = [max(error**0.5 - deviation, 0.0) ** 2 for error, deviation in pairs]
            high = [(error**0.5 + deviation) ** 2 for error, deviation in pairs]
            axes.fill_between(x, low, high, color=_color(name), alpha=0.35, linewidth=0)
            axes.plot(x, middle, color=_color(name), linewidth=1.0)
            axes.set_title(f"{title_of(name)}: mean {mean(middle):.3f}", fontsize=9)
            axes.grid(axis="y", color=GRID, linewidth=0.8)
            axes.set_axisbelow(True)
        panels[-1].set_xlabel("test hour")
        figure.supylabel("squared error, kW²", fontsize=10)
    return figure


def bands_figure(hours: Iterable[Hours], setting: str = "day") -> Figure:
    """Four days of the test hours: what came, the median that was forecast, and the 50 % and 95 % intervals."""
    lines = {line["name"]: line for line in hours if line["setting"] == setting and line["seed"] == 0}
    chosen = [name for name in BANDS[setting] if name in lines]
    with look():
        figure = Figure(figsize=(9, 2.1 * len(chosen) + 0.5), layout="constrained")
        panels = figure.subplots(len(chosen), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, name in zip(panels, chosen, strict=True):
            line, color = lines[name], _color(name)
            bands = {share: values[: 24 * DAYS] for share, values in line["bands"].items()}
            x = range(len(bands["50"]))
            axes.fill_between(x, bands["2.5"], bands["97.5"], color=color, alpha=0.18, linewidth=0, label="95 %")
            axes.fill_between(x, bands["25"], bands["75"], color=color, alpha=0.35, linewidth=0, label="50 %")
            axes.plot(x, bands["50"], color=color, linewidth=1.3, label="median")
            axes.plot(x, line["power"][: 24 * DAYS], ".", color=INK, markersize=4, label="measured")
            axes.set_title(title_of(name), fontsize=10)
            axes.grid(axis="y", color=GRID, linewidth=0.8)
            axes.set_axisbelow(True)
            axes.set_xticks(range(0, 24 * DAYS + 1, 24))
            if setting == "paths":
                for border in range(24, 24 * DAYS, 24):
                    axes.axvline(border - 0.5, color=MUTED, linewidth=0.8)
        panels[0].legend(loc="upper right", ncols=4, fontsize=8, frameon=False)
        panels[-1].set_xlabel("hours; each day is one forecast" if setting == "paths" else "test hour")
        figure.supylabel("kW", fontsize=10)
    return figure


def pit_figure(hours: Iterable[Hours], settings: Sequence[str] = PIT) -> Figure:
    """PIT histograms, mean over runs: flat if calibrated, high at the ends if forecasts are too narrow."""
    groups: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for line in hours:
        if line["setting"] in settings and "seasonal" not in line["name"]:
            groups[line["setting"], line["name"]].append(line["pit"])
    names = list(dict.fromkeys(name for _, name in groups))
    with look():
        figure = Figure(figsize=(1.75 * len(names) + 0.6, 1.9 * len(settings) + 0.3), layout="constrained")
        grid = figure.subplots(len(settings), len(names), sharex=True, sharey=True, squeeze=False)
        for row, setting in enumerate(settings):
            for column, name in enumerate(names):
                axes, runs = grid[row, column], groups.get((setting, name))
                if runs is None:
                    axes.set_visible(False)
                    continue
                density = [mean(values) for values in zip(*runs, strict=True)]
                places = [(place + 0.5) / BINS for place in range(BINS)]
                axes.bar(places, density, width=1 / BINS, color=_color(name), alpha=0.7)
                axes.axhline(1, color=INK, linewidth=0.9, linestyle="--")
                axes.set_title(title_of(name).replace(", ", ",\n"), fontsize=8)
                axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
            grid[row, 0].set_ylabel(f"{setting}: density")
    return figure


def draw(hours: Sequence[Hours]) -> dict[str, Figure]:
    """All figures, by name."""
    return {
        "power-errors": errors_figure(hours),
        "power-day": bands_figure(hours, "day"),
        "power-paths": bands_figure(hours, "paths"),
        "power-pit": pit_figure(hours),
    }
