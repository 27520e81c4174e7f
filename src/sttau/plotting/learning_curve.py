"""Learning curves."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure

from sttau.plotting.style import BLUE, GREEN, INK, MUTED, ORANGE, RED
from sttau.training import Update


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
    loss.plot(numbers, values, color=MUTED, alpha=0.5, linewidth=1)
    width = max(1, len(log) // 50)
    if width > 1:
        smooth = values.unfold(0, width, 1).mean(1)
        loss.plot(numbers[width - 1 :], smooth, color=INK, linewidth=2, label=f"mean of {width} updates")
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


__all__ = ["learning_figure"]
