"""Drawings of automata with matplotlib; Graphviz is not needed."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Wedge
from matplotlib.path import Path as Curve
from torch import Tensor

from sttau.automata import AutomatonLike
from sttau.automata.exchange import diagram
from sttau.automata.exchange.files import to_text
from sttau.files import write_atomically
from sttau.plotting.automaton_layout import RADIUS, Points, arrange, extent
from sttau.plotting.png import as_png
from sttau.plotting.style import BLUE, INK, MUTED, look

_SUFFIXES = (".svg", ".png", ".dot", ".json", ".prism", ".jff", ".att")
_INCHES = 0.85  # size of one unit of the layout


def draw_automaton(
    axes: Axes,
    automaton: AutomatonLike,
    title: str = "",
    *,
    probabilities: Mapping[tuple[Any, str], float] | None = None,
    variances: Mapping[tuple[Any, str], float] | Tensor | None = None,
    intervals: tuple[Tensor, Tensor] | None = None,
    smallest: float = 0.005,
    hidden: Collection[tuple[int, str]] = (),
    color: str = BLUE,
) -> None:
    """Draw an automaton. Double circles accept; states that accept with a probability are filled by that share.

    Args:
        axes: Axes of the drawing.
        automaton: Automaton; drawings are readable up to about 20 states, or ten of a PA.
        title: Title of the drawing.
        probabilities: Probability of each edge (state, symbol) of a DFA, added to the label.
        variances: Variance of each edge of a DFA, or (symbols, k, k) variances of a PA, added to the label.
        intervals: Lower and upper ends, (symbols, k, k) each, of the probabilities of a PA, added to the label.
        smallest: Smallest probability of an edge of a PA that is shown.
        hidden: Pairs (state, symbol) of a PA whose edges are not shown, such as those without data.
        color: Color of the states.
    """
    shown = diagram(
        automaton,
        probabilities=probabilities,
        variances=variances,
        intervals=intervals,
        smallest=smallest,
        hidden=hidden,
    )
    layout = arrange(shown, smallest)
    low, high = extent(layout)
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(title)
    figure = axes.get_figure(root=True)
    assert figure is not None
    spec = axes.get_subplotspec()
    rows, columns = (1, 1) if spec is None else spec.get_gridspec().get_geometry()
    inches = 0.97 * figure.get_size_inches() / (columns, rows)
    scale = float(min(inches / (high - low)))  # inches per unit
    font = min(9.0, max(4.0, 9.5 * scale / _INCHES))

    for arrow in layout.arrows:
        _draw_arrow(axes, arrow.control, font)
    for arrow, (x, y) in zip(layout.arrows, layout.labels, strict=True):
        box = {"boxstyle": "square,pad=0.08", "facecolor": "white", "edgecolor": "none", "alpha": 0.9}
        axes.text(x, y, arrow.label, ha="center", va="center", fontsize=font, zorder=6, bbox=box, linespacing=1.05)
    for state, (x, y) in enumerate(layout.places):
        output = shown.output[state]
        axes.add_patch(Circle((x, y), RADIUS, facecolor="white", edgecolor=color, linewidth=1.6, zorder=3))
        text = str(state)
        if output > 0.995:
            axes.add_patch(Circle((x, y), RADIUS * 0.8, fill=False, edgecolor=color, linewidth=1.2, zorder=4))
        elif output >= 0.005:
            wedge = Wedge((x, y), RADIUS * 0.92, 90 - 360 * output, 90, facecolor=color, alpha=0.25, zorder=4)
            axes.add_patch(wedge)
            text += f"\n{output:.2f}"
        size = font if "\n" not in text else 0.8 * font
        axes.text(x, y, text, ha="center", va="center", fontsize=size, color=INK, zorder=5, linespacing=0.95)
    for state, angle in layout.starts.items():
        away = np.array([math.cos(angle), math.sin(angle)])
        begin, end = layout.places[state] + 3.2 * RADIUS * away, layout.places[state] + RADIUS * away
        _draw_arrow(axes, np.stack([begin, (begin + end) / 2, end]), font)
        if shown.initial[state] < 0.995:
            x, y = layout.places[state] + 4 * RADIUS * away
            axes.text(x, y, f"{shown.initial[state]:.2f}", ha="center", va="center", fontsize=font, zorder=6)


def drawing(
    automaton: AutomatonLike,
    title: str = "",
    *,
    probabilities: Mapping[tuple[Any, str], float] | None = None,
    variances: Mapping[tuple[Any, str], float] | Tensor | None = None,
    intervals: tuple[Tensor, Tensor] | None = None,
    smallest: float = 0.005,
    hidden: Collection[tuple[int, str]] = (),
    color: str = BLUE,
) -> Figure:
    """Return a figure of an automaton, sized to fit; arguments are those of :func:`draw_automaton`.

    Example:
        >>> from sttau.automata import stochastic
        >>> drawing(stochastic(2), "PA-2").axes[0].get_title(loc="left")
        'PA-2'
    """
    shown = diagram(
        automaton,
        probabilities=probabilities,
        variances=variances,
        intervals=intervals,
        smallest=smallest,
        hidden=hidden,
    )
    low, high = extent(arrange(shown, smallest))
    with look():
        width, height = _INCHES * (high - low)
        figure = Figure(figsize=(width, height + (0.35 if title else 0)))
        axes = figure.add_axes((0, 0, 1, height / (height + (0.35 if title else 0))))
        draw_automaton(
            axes,
            automaton,
            title,
            probabilities=probabilities,
            variances=variances,
            intervals=intervals,
            smallest=smallest,
            hidden=hidden,
            color=color,
        )
    return figure


def save_drawing(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as SVG or PNG, by the suffix of its name, atomically; return its path."""
    path = Path(path)
    kind = path.suffix.lstrip(".")
    if kind not in ("svg", "png"):
        raise ValueError(f"a drawing is an .svg or a .png, got {path.name!r}")
    if kind == "png":
        return write_atomically(path, as_png(figure))
    content = BytesIO()
    with look():
        figure.savefig(content, format="svg", dpi=150, metadata={"Date": None})
    return write_atomically(path, content.getvalue())


def write_automaton(
    automaton: AutomatonLike,
    path: str | os.PathLike[str],
    title: str = "",
    *,
    probabilities: Mapping[tuple[Any, str], float] | None = None,
    variances: Mapping[tuple[Any, str], float] | Tensor | None = None,
    intervals: tuple[Tensor, Tensor] | None = None,
    smallest: float = 0.005,
    hidden: Collection[tuple[int, str]] = (),
) -> Path:
    """Write an automaton in the format of the file's suffix: .svg, .png, .dot, .json, .prism, .jff or .att.

    Args:
        automaton: Automaton.
        path: Path of the file, which is written atomically.
        title: Title of a drawing.
        probabilities: Probabilities as in :func:`draw_automaton`, for drawings and DOT.
        variances: Variances as in :func:`draw_automaton`.
        intervals: Intervals as in :func:`draw_automaton`.
        smallest: Smallest probability as in :func:`draw_automaton`.
        hidden: Pairs (state, symbol) as in :func:`draw_automaton`; only drawings and .dot can leave them out.

    Example:
        >>> import tempfile
        >>> from sttau.automata import tomita
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_automaton(tomita(1), f"{folder}/ones.dot").read_text()[:17]
        'digraph automaton'
    """
    path = Path(path)
    check_ending(path)
    notes: dict[str, Any] = {
        "probabilities": probabilities,
        "variances": variances,
        "intervals": intervals,
        "smallest": smallest,
        "hidden": hidden,
    }
    if hidden and path.suffix not in (".svg", ".png", ".dot"):
        pairs = ", ".join(f"state {state} under {symbol!r}" for state, symbol in hidden)
        raise ValueError(
            f"{path.name} would define moves that are not known ({pairs}); write a drawing or .dot, which leave them "
            "out, or observe more"
        )
    if path.suffix in (".svg", ".png"):
        return save_drawing(drawing(automaton, title, **notes), path)
    return write_atomically(path, to_text(automaton, path.suffix, **notes).encode())


def check_ending(path: Path) -> None:
    """Raise an error if :func:`write_automaton` does not support the suffix of a path."""
    if path.suffix not in _SUFFIXES:
        raise ValueError(f"an automaton is written as {', '.join(_SUFFIXES)}, got {path.name!r}")


def _draw_arrow(axes: Axes, control: Points, font: float) -> None:
    kind = Curve.CURVE3 if len(control) == 3 else Curve.CURVE4
    path = Curve(control, [Curve.MOVETO] + [kind] * (len(control) - 1))
    axes.add_patch(
        FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=1.2 * font, color=MUTED, linewidth=0.13 * font)
    )


__all__ = ["draw_automaton", "drawing", "save_drawing", "write_automaton"]
