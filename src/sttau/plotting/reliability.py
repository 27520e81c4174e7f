"""Reliability diagrams."""

from __future__ import annotations

from matplotlib.axes import Axes

from sttau.metrics import ReliabilityCurve
from sttau.plotting.style import INK, MUTED, RED


def reliability_axes(axes: Axes, curve: ReliabilityCurve, title: str, color: str) -> None:
    """Draw accuracy against confidence; bars of bins with fewer than 10 predictions are pale.

    Args:
        axes: Axes to draw on.
        curve: Reliability curve; the number of predictions is written into each bar.
        title: Title of the axes.
        color: Color of the bars.
    """
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
    """Return a count short enough for a bar."""
    return str(count) if count < 1000 else f"{count / 1000:.1f}k" if count < 9950 else f"{count / 1000:.0f}k"
