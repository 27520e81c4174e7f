"""Figures of the quickstart's report."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from sttau.inference import Prediction
from sttau.plotting.automaton import drawing
from sttau.plotting.reliability import reliability_axes
from sttau.plotting.style import GREEN, INK, MUTED, ORANGE, PURPLE, RED, method_color, method_title
from sttau.quickstart import AutomatonRun, Quickstart


def automaton_figures(run: AutomatonRun) -> list[Figure]:
    """Draw the automaton of the grammar, and the extracted one."""
    verdict = "proved equal" if run.equivalence else f"differs on “{run.equivalence.counterexample}”"
    return [
        drawing(run.truth, "Of the grammar", color=INK),
        drawing(
            run.extracted.dfa,
            f"Extracted: {verdict}",
            probabilities=run.extracted.probabilities,
            color=INK,
        ),
    ]


def reliability_figure(quickstart: Quickstart) -> Figure:
    """Reliability diagrams of all methods, first seed."""
    first = [run for run in quickstart.digits if run.result.seed == quickstart.digits[0].result.seed]
    figure = Figure(figsize=(4.2 * len(first), 4.4), layout="constrained")
    for axes, run in zip(figure.subplots(1, len(first), squeeze=False)[0], first, strict=True):
        metrics = run.result.metrics
        title = f"{method_title(run.method)}: ECE {metrics['ece']:.2f} %, MCE {metrics['mce']:.1f} %"
        reliability_axes(axes, run.curve, title, method_color(run.method))
    return figure


def reading_figure(quickstart: Quickstart) -> Figure:
    """Plot uncertainty of ST-τ while digits are read row by row: one digit, and the mean over all."""
    run = next(run for run in quickstart.digits if run.method == "st-tau")
    reading, row = run.reading, clearest_row(quickstart, run.reading)
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
    for digit, color in zip([label, *rivals], (PURPLE, ORANGE, GREEN), strict=False):
        middle, spread = probability[:, digit].numpy(), deviation[:, digit].numpy()
        classes.plot(steps, middle, color=color, marker="o", markersize=3.5, label=f"“{digit}”")
        classes.fill_between(steps, middle - spread, middle + spread, color=color, alpha=0.18, linewidth=0)
    classes.set(ylim=(-0.03, 1.03), xlabel="rows read", ylabel="probability", title="predicted probability")
    classes.legend(frameon=False, fontsize=9)

    unseen_digits = " and ".join(map(str, quickstart.settings.ood_digits))
    for axes, name, title in ((total, "total", "total uncertainty"), (epistemic, "epistemic", "epistemic uncertainty")):
        one, seen, unseen = getattr(reading, name)[row], getattr(reading, name), getattr(run.ood, name)
        axes.plot(steps, one, color=INK, marker="o", markersize=3.5, label=f"this “{label}”")
        axes.plot(steps, seen.mean(0), color=MUTED, linewidth=2, label="mean, in-distribution")
        axes.plot(steps, unseen.mean(0), color=RED, linewidth=2, label=f"mean, OOD: {unseen_digits}")
        axes.set(xlabel="rows read", ylabel="bits", ylim=(0, None), title=title)
    total.legend(frameon=False, fontsize=9)
    return figure


def ood_figure(quickstart: Quickstart) -> Figure:
    """Share of in-distribution and of OOD digits whose uncertainty exceeds each threshold, first seed."""
    first = [run for run in quickstart.digits if run.result.seed == quickstart.digits[0].result.seed]
    unseen_digits = " and ".join(map(str, quickstart.settings.ood_digits))
    figure = Figure(figsize=(4.6 * len(first), 3.2), layout="constrained")
    for axes, run in zip(figure.subplots(1, len(first), squeeze=False)[0], first, strict=True):
        for values, color, label in (
            (run.reading.total[:, -1], MUTED, "in-distribution digits"),
            (run.ood.total[:, -1], RED, f"OOD: {unseen_digits}"),
        ):
            ordered = values.sort().values
            share = 1 - torch.arange(1, len(ordered) + 1) / len(ordered)
            axes.step(ordered.numpy(), 100 * share.numpy(), where="post", color=color, linewidth=2, label=label)
        title = f"{method_title(run.method)}: AUROC {run.result.metrics['auroc']:.1f} %"
        axes.set(xlabel="threshold of the total uncertainty (bits)", ylabel="digits above it, %", title=title)
        axes.set(xlim=(0, None), ylim=(0, 100))
        axes.legend(frameon=False, fontsize=9)
    return figure


def clearest_row(quickstart: Quickstart, reading: Prediction) -> int:
    """Return the correctly classified digit whose uncertainty decreases most while it is read."""
    correct = reading.label[:, -1] == quickstart.test.labels
    decrease = reading.total.amax(1) - reading.total[:, -1]
    return int(torch.where(correct, decrease, -1.0).argmax())
