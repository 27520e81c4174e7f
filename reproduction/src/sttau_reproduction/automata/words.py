"""What the words of a text do in a probabilistic automaton: its states by the class they mean, and moves by words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch

from sttau.plotting.style import BLUE, GRID, INK, MUTED, look

_LARGEST = 0.42  # radius of a state that is always visited
_BEND = 0.22  # of arrows, as a share of their length


@dataclass(frozen=True)
class WordMove:
    """A move from a state to another.

    Attributes:
        start: Number of the state before.
        end: Number of the state after.
        moves: Expected number of such moves per 1,000 words.
        words: Words that cause most of them, in descending order.
    """

    start: int
    end: int
    moves: float
    words: tuple[str, ...]


def words_figure(
    visits: Sequence[float], positive: Sequence[float], moves: Sequence[WordMove], class_name: str = "positive"
) -> Figure:
    """Draw states from left to right by the probability of a class, and the moves between them with their words.

    Args:
        visits: Share of the time that each state is visited; it sets the area of the state.
        positive: Probability of the class in each state.
        moves: Moves to draw.
        class_name: Name of the class.

    Example:
        >>> figure = words_figure([0.6, 0.4], [0.1, 0.9], [WordMove(0, 1, 5.0, ("superb", "moving"))])
        >>> figure.axes[0].get_xlabel()
        'states, by probability of positive'
    """
    places = _places(np.asarray(visits, float), np.asarray(positive, float))
    with look():
        figure = Figure(figsize=(9.5, 5.2), layout="constrained")
        axes = figure.subplots()
        axes.set_xlabel(f"states, by probability of {class_name}")
        radii = _LARGEST * np.sqrt(np.asarray(visits, float) / max(visits))
        radii = np.maximum(radii, 0.16)
        largest = max((move.moves for move in moves), default=1.0)
        taken = [(x, y, radius) for (x, y), radius in zip(places.tolist(), radii.tolist(), strict=True)]
        for move in moves:
            x, y = _draw_move(axes, move, places, radii, largest, taken)
            taken.append((x, y, 0.3))
        for (x, y), radius, share, probability in zip(places, radii, visits, positive, strict=True):
            axes.add_patch(Circle((x, y), radius, facecolor="white", edgecolor=BLUE, linewidth=1.5, zorder=3))
            label = f"{probability:.2f}\n{100 * share:.0f} %" if radius > 0.25 else f"{probability:.2f}"
            axes.text(x, y, label, ha="center", va="center", fontsize=7.5, color=INK, zorder=4)
        axes.set_xlim(places[:, 0].min() - 0.8, places[:, 0].max() + 0.8)
        axes.set_ylim(places[:, 1].min() - 0.9, places[:, 1].max() + 0.9)
        axes.set_aspect("equal")
        axes.set_yticks([])
        axes.set_xticks([])
        for side in axes.spines.values():
            side.set_color(GRID)
    return figure


def _places(visits: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Positions in order of probability, alternately high and low."""
    order = np.argsort(positive, kind="stable")
    places = np.empty((len(order), 2))
    for rank, state in enumerate(order):
        places[state] = (1.35 * rank, (0.0, 1.25, -1.25)[rank % 3] if len(order) > 2 else 0.0)
    return places


def _draw_move(
    axes: Axes,
    move: WordMove,
    places: np.ndarray,
    radii: np.ndarray,
    largest: float,
    taken: Sequence[tuple[float, float, float]],
) -> tuple[float, float]:
    """Draw an arrow, with its words where they are farthest from states and other words; return their position."""
    start, end = places[move.start], places[move.end]
    direction = (end - start) / np.linalg.norm(end - start)
    begin, finish = start + radii[move.start] * direction, end - radii[move.end] * direction
    arrow = FancyArrowPatch(
        tuple(begin), tuple(finish), connectionstyle=f"arc3,rad={_BEND}", arrowstyle="-|>", mutation_scale=9,
        linewidth=0.6 + 2.2 * move.moves / largest, color=MUTED, alpha=0.75, zorder=2,
    )  # fmt: skip
    axes.add_patch(arrow)
    x, y = max(
        _along(begin, finish), key=lambda place: min(np.hypot(place[0] - a, place[1] - b) - r for a, b, r in taken)
    )
    axes.text(x, y, "\n".join(move.words), ha="center", va="center", fontsize=6.5, color=INK, zorder=5,
              bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6})  # fmt: skip
    return x, y


def _along(begin: np.ndarray, finish: np.ndarray) -> list[tuple[float, float]]:
    """Points on the curve of Matplotlib's ``arc3``, from its middle outwards."""
    across = finish - begin
    control = (begin + finish) / 2 + _BEND * np.array([across[1], -across[0]])
    points = []
    for t in (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74):
        x, y = (1 - t) ** 2 * begin + 2 * t * (1 - t) * control + t**2 * finish
        points.append((float(x), float(y)))
    return points
