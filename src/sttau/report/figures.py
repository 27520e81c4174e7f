"""Figures: calibration, uncertainty over time, learning curves. Each function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sttau.calibration import ReliabilityCurve
from sttau.experiments.quickstart import AutomatonRun, Quickstart
from sttau.inference import Prediction
from sttau.report.automaton import draw_automaton
from sttau.report.style import BLUE, GREEN, INK, METHOD_COLORS, METHOD_NAMES, MUTED, ORANGE, RED
from sttau.training import Update


def automaton_figure(run: AutomatonRun) -> Figure:
    """Draw the true automaton and the extracted one side by side."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_automaton(left, run.truth, "The truth", color=MUTED)
    verdict = "proved equal" if run.equivalence else f"differs on “{run.equivalence.counterexample}”"
    title, probabilities = f"Read out of the network: {verdict}", run.extracted.probabilities
    draw_automaton(right, run.extracted.dfa, title, probabilities=probabilities)
    return figure


def reliability_axes(axes: Axes, curve: ReliabilityCurve, title: str, color: str) -> None:
    """Draw accuracy against confidence; bars are dim where few predictions fall into a bin, which the number tells."""
    width = float(curve.edges[1] - curve.edges[0])
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle="--", zorder=1)
    for n, count in enumerate(curve.count.tolist()):
        if count == 0:
            continue
        middle = float(curve.edges[n]) + width / 2
        confidence, accuracy = float(curve.confidence[n]), float(curve.accuracy[n])
        axes.bar(middle, accuracy, width * 0.92, color=color, alpha=0.5 if count >= 10 else 0.2, zorder=2)
        axes.plot([middle - width * 0.46, middle + width * 0.46], [confidence] * 2, color=RED, linewidth=2, zorder=3)
        axes.text(middle, 0.015, _short(count), ha="center", va="bottom", fontsize=8, color=INK, zorder=4)
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", ylabel="accuracy", title=title)
    axes.set_aspect("equal")


def _short(count: int) -> str:
    """So that it fits into a bar."""
    return str(count) if count < 1000 else f"{count / 1000:.1f}k" if count < 9950 else f"{count / 1000:.0f}k"


def reliability_figure(quickstart: Quickstart) -> Figure:
    """Reliability diagrams of all methods, first seed."""
    first = [run for run in quickstart.digits if run.result.seed == quickstart.digits[0].result.seed]
    figure = Figure(figsize=(4.2 * len(first), 4.4), layout="constrained")
    for axes, run in zip(figure.subplots(1, len(first), squeeze=False)[0], first, strict=True):
        metrics = run.result.metrics
        title = f"{METHOD_NAMES[run.method]}: ECE {metrics['ece']:.2f} %, MCE {metrics['mce']:.1f} %"
        reliability_axes(axes, run.curve, title, METHOD_COLORS[run.method])
    return figure


def reading_figure(quickstart: Quickstart) -> Figure:
    """Show how uncertainty goes away while digits are read row by row: one digit, and the mean over all (ST-τ)."""
    run = next(run for run in quickstart.digits if run.method == "st-tau")
    reading, row = run.reading, telling_row(quickstart, run.reading)
    image, label = quickstart.test.inputs[row], int(quickstart.test.labels[row])
    figure = Figure(figsize=(11, 3.5), layout="constrained")
    picture, classes, total, epistemic = figure.subplots(1, 4, width_ratios=[0.8, 1.2, 1.2, 1.2])
    steps = torch.arange(1, image.shape[0] + 1).numpy()
    picture.imshow(image.numpy(), cmap="Greys", aspect="equal")
    picture.set(xticks=[], yticks=range(image.shape[0]), yticklabels=steps, ylabel="row")
    picture.set_title(f"a “{label}”")
    picture.spines[:].set_visible(False)

    probability, deviation = reading.mean[row], reading.variance[row].sqrt()
    rivals = [digit for digit in probability.amax(0).argsort(descending=True).tolist() if digit != label]
    for digit, color in zip([label, *rivals], (BLUE, ORANGE, GREEN), strict=False):
        middle, spread = probability[:, digit].numpy(), deviation[:, digit].numpy()
        classes.plot(steps, middle, color=color, marker="o", markersize=3.5, label=f"“{digit}”")
        classes.fill_between(steps, middle - spread, middle + spread, color=color, alpha=0.18, linewidth=0)
    classes.set(ylim=(-0.03, 1.03), xlabel="rows read", ylabel="probability", title="what it believes")
    classes.legend(frameon=False, fontsize=9)

    foreign = " and ".join(map(str, quickstart.settings.foreign_digits))
    for axes, name, title in ((total, "total", "total uncertainty"), (epistemic, "epistemic", "its epistemic part")):
        mine, familiar, unseen = getattr(reading, name)[row], getattr(reading, name), getattr(run.foreign, name)
        axes.plot(steps, mine, color=BLUE, marker="o", markersize=3.5, label=f"this “{label}”")
        axes.plot(steps, familiar.mean(0), color=MUTED, linewidth=2, label="mean, all test digits")
        axes.plot(steps, unseen.mean(0), color=RED, linewidth=2, label=f"mean, unseen {foreign}")
        axes.set(xlabel="rows read", ylabel="bits", ylim=(0, None), title=title)
    total.legend(frameon=False, fontsize=9)
    return figure


def foreign_figure(quickstart: Quickstart) -> Figure:
    """Histogram of uncertainty on familiar and on foreign digits, first seed."""
    first = [run for run in quickstart.digits if run.result.seed == quickstart.digits[0].result.seed]
    foreign = " and ".join(map(str, quickstart.settings.foreign_digits))
    figure = Figure(figsize=(4.6 * len(first), 3.2), layout="constrained")
    for axes, run in zip(figure.subplots(1, len(first), squeeze=False)[0], first, strict=True):
        edges = torch.linspace(0, 3, 31).numpy()
        for values, color, label in (
            (run.reading.total[:, -1], METHOD_COLORS[run.method], "familiar digits"),
            (run.foreign.total[:, -1], RED, f"never seen: {foreign}"),
        ):
            weights = torch.full_like(values, 1 / len(values)).numpy()
            axes.hist(values.numpy(), edges, weights=weights, color=color, alpha=0.6, label=label)
        title = f"{METHOD_NAMES[run.method]}: AUROC {run.result.metrics['auroc']:.1f} %"
        axes.set(xlabel="total uncertainty (bits)", ylabel="share of digits", yscale="log", title=title)
        axes.legend(frameon=False, fontsize=9)
    return figure


def telling_row(quickstart: Quickstart, reading: Prediction) -> int:
    """Choose the digit whose uncertainty shrinks most while it is read, among those that end up right."""
    right = reading.label[:, -1] == quickstart.test.labels
    fall = reading.total.amax(1) - reading.total[:, -1]
    return int(torch.where(right, fall, -1.0).argmax())


def learning_figure(log: Sequence[Update]) -> Figure:
    """Draw loss, validation and τ over the updates of a training run; what there is none of is left out.

    Example:
        >>> log = [Update(n, 9, 1 / n, (1.0,), metrics={"nll": 2 / n} if n % 3 == 0 else {}) for n in range(1, 10)]
        >>> [axes.get_title() for axes in learning_figure(log).axes]
        ['training loss', 'validation: nll', 'temperature τ']
    """
    metrics = list(dict.fromkeys(name for update in log for name in update.metrics))
    layers = max((len(update.temperature) for update in log), default=0)
    panels = 1 + len(metrics) + (layers > 0)
    figure = Figure(figsize=(3.8 * panels, 3.2), layout="constrained")
    loss, *others = figure.subplots(1, panels, squeeze=False)[0]
    numbers, values = [update.number for update in log], torch.tensor([update.loss for update in log])
    loss.plot(numbers, values, color=BLUE, alpha=0.3, linewidth=1)
    width = max(1, len(log) // 50)
    if width > 1:
        smooth = values.unfold(0, width, 1).mean(1)
        loss.plot(numbers[width - 1 :], smooth, color=BLUE, linewidth=2, label=f"mean of {width} updates")
        loss.legend(frameon=False, fontsize=9)
    loss.set(title="training loss", xlabel="update")
    for axes, name in zip(others, metrics, strict=False):
        points = [(update.number, update.metrics[name]) for update in log if name in update.metrics]
        axes.plot(*zip(*points, strict=True), color=ORANGE, marker="o", markersize=3.5)
        axes.set(title=f"validation: {name}", xlabel="update")
    if layers:
        for layer, color in zip(range(layers), (GREEN, BLUE, ORANGE, RED, MUTED, INK) * layers, strict=False):
            others[-1].plot(numbers, [update.temperature[layer] for update in log], color=color, label=f"τ {layer}")
        others[-1].set(title="temperature τ", xlabel="update")
        if layers > 1:
            others[-1].legend(frameon=False, fontsize=9)
    return figure
