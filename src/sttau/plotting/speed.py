"""Speed of the engines compared with PyTorch's own layers: tables and a figure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sttau.jobs import Result
from sttau.plotting.style import BLUE, GREEN, INK, MUTED, ORANGE, RED


class SpeedComparison(NamedTuple):
    """ST-τ compared with PyTorch's layer on one shape and dtype. Times in ms, memory in MiB."""

    shape: str
    precision: str
    theirs: dict[str, float]
    ours: dict[str, float]
    reference: dict[str, float]

    def faster(self, task: str) -> float | None:
        """Return how many times faster ours is; None if it was not measured."""
        name = f"{task}_ms"
        return self.theirs[name] / self.ours[name] if name in self.ours and name in self.theirs else None

    def captured(self) -> float | None:
        """Return how many times faster our training step as a CUDA graph is than their eager training step."""
        captured = self.ours.get("training_graph_ms")
        return None if captured is None else self.theirs["training_ms"] / captured

    def faster_than_reference(self) -> float | None:
        """Return how many times faster our training step is than that of the step-by-step reference."""
        return self.reference["training_ms"] / self.ours["training_ms"] if self.reference else None

    def part(self, name: str) -> float | None:
        """Return ours as a fraction of theirs; our ten samples are compared with one pass of theirs."""
        return self.ours[name] / self.theirs[name] if name in self.ours and name in self.theirs else None


def compare_speed(results: Iterable[Result]) -> list[SpeedComparison]:
    """Group the results of :func:`sttau.bench.measure` by shape and dtype, in their order."""
    rows: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for result in results:
        row = rows.setdefault((result.data, result.settings["precision"]), {})
        kind = "theirs" if result.method.startswith("nn.") else "reference" if result.method == "reference" else "ours"
        row[kind] = result.metrics
    return [
        SpeedComparison(shape, precision, row["theirs"], row["ours"], row.get("reference", {}))
        for (shape, precision), row in rows.items()
    ]


HEADER = (
    "shape",
    "dtype",
    "training",
    "forward",
    "10 samples",
    "memory",
    "graph: training",
    "graph: forward",
    "graph: 10 samples",
    "graph vs. eager: training",
    "vs. reference",
)


def speed_table(comparisons: Iterable[SpeedComparison]) -> list[tuple[str, ...]]:
    """Return rows for ``HEADER``: speedups over PyTorch's layer; ten samples and memory as fractions of one pass."""

    def times(value: float | None) -> str:
        return "" if value is None else f"{value:.1f}×"

    def part(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    def whole(value: float | None) -> str:
        return "" if value is None else f"{value:.0f}×"

    return [
        (
            c.shape,
            c.precision,
            times(c.faster("training")),
            times(c.faster("forward")),
            part(c.part("samples_ms")),
            part(c.part("training_mb")),
            times(c.faster("training_graph")),
            times(c.faster("forward_graph")),
            part(c.part("samples_graph_ms")),
            times(c.captured()),
            whole(c.faster_than_reference()),
        )
        for c in comparisons
    ]


def speed_figure(comparisons: list[SpeedComparison], title: str) -> Figure:
    """Draw bars of the speedup over PyTorch's layer, and a line at 1."""
    tasks = [
        ("training", BLUE, "training step"),
        ("training_graph", RED, "training step as a CUDA graph, both"),
        ("forward", GREEN, "forward pass"),
        ("samples", ORANGE, "ten samples, compared with one forward pass"),
    ]
    tasks = [task for task in tasks if any(c.faster(task[0]) is not None for c in comparisons)]
    figure = Figure(figsize=(9, 0.9 + 0.75 * len(comparisons)), layout="constrained")
    axes = figure.subplots()
    for row, comparison in enumerate(comparisons):
        for number, (task, color, label) in enumerate(tasks):
            value = comparison.faster(task)
            if value is None:
                continue
            height = 0.8 / len(tasks)
            place = row + (number - (len(tasks) - 1) / 2) * height
            axes.barh(place, value, 0.92 * height, color=color, label=label if row == 0 else None, zorder=2)
            axes.text(value * 1.03, place, f"{value:.1f}×", va="center", fontsize=8, color=INK)
    axes.axvline(1, color=MUTED, linewidth=1, linestyle="--", zorder=3)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(comparisons)), [f"{c.shape}\n{c.precision}" for c in comparisons], fontsize=8)
    axes.invert_yaxis()
    low = min(value for c in comparisons for task, *_ in tasks if (value := c.faster(task)) is not None)
    high = max(value for c in comparisons for task, *_ in tasks if (value := c.faster(task)) is not None)
    axes.set_xlim(min(0.5, low / 1.5), high * 1.8)
    axes.set(xlabel="times faster than PyTorch's layer (log scale)", title=title)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=len(tasks))
    return figure
