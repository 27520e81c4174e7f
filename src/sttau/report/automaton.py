"""Drawings of automata."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from automata.fa.dfa import DFA
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch

from sttau.report.style import BLUE, INK, MUTED

_RADIUS = 0.26


def draw_dfa(
    axes: Axes,
    dfa: DFA,
    title: str = "",
    probabilities: Mapping[tuple[Any, str], float] | None = None,
    colour: str = BLUE,
) -> None:
    """Draw a DFA: levels from left to right by distance from the start, double circles accept.

    Args:
        axes: where to draw.
        dfa: with any states; they are shown by number in order of distance from the start.
        title: above the drawing.
        probabilities: of an edge (state, symbol), written behind the symbol.
        colour: of the states.
    """
    place = _places(dfa)
    start: Any = dfa.initial_state
    number = {state: n for n, state in enumerate(place)}
    labels: dict[tuple[Any, Any], list[str]] = defaultdict(list)
    for state, moves in dfa.transitions.items():
        for symbol in sorted(moves):
            text = symbol
            if probabilities is not None:
                text = f"{symbol} [{probabilities[state, symbol]:.3f}]"
            labels[state, moves[symbol]].append(text)
    for (source, target), texts in labels.items():
        label = "\n".join(texts) if probabilities is not None else ", ".join(texts)
        if source == target:
            _loop(axes, place[source], label, down=place[source][1] < -0.1)
        else:
            bend = 0.16 if (target, source) in labels else 0.0
            if any(
                _is_in_the_way(place[state], place[source], place[target])
                for state in place
                if state not in (source, target)
            ):
                bend = 0.38
            _edge(axes, place[source], place[target], label, bend)
    for state, (x, y) in place.items():
        axes.add_patch(Circle((x, y), _RADIUS, facecolor="white", edgecolor=colour, linewidth=1.6, zorder=3))
        if state in dfa.final_states:
            axes.add_patch(Circle((x, y), _RADIUS * 0.8, fill=False, edgecolor=colour, linewidth=1.2, zorder=4))
        axes.text(x, y, str(number[state]), ha="center", va="center", color=INK, zorder=5)
    x, y = place[start]
    _arrow(axes, (x - 3 * _RADIUS, y), (x - _RADIUS, y))
    xs, ys = [p[0] for p in place.values()], [p[1] for p in place.values()]
    axes.set_xlim(min(xs) - 0.95, max(xs) + 0.75)
    axes.set_ylim(min(ys) - 1.0, max(ys) + 0.9)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(title)


def _places(dfa: DFA) -> dict[Any, tuple[float, float]]:
    """Place states by their distance from the start, those at one distance above each other."""
    level: dict[Any, int] = {dfa.initial_state: 0}
    queue: list[Any] = [dfa.initial_state]
    for state in queue:
        for symbol in sorted(dfa.transitions[state]):
            target = dfa.transitions[state][symbol]
            if target not in level:
                level[target] = level[state] + 1
                queue.append(target)
    rows: dict[int, list[Any]] = defaultdict(list)
    for state in queue:
        rows[level[state]].append(state)
    return {
        state: (
            1.8 * level[state],
            1.9 * ((len(rows[level[state]]) - 1) / 2 - rows[level[state]].index(state)),
        )
        for state in queue
    }


def _is_in_the_way(point: tuple[float, float], start: tuple[float, float], end: tuple[float, float]) -> bool:
    """Whether a straight edge would run through this state."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    px, py = point[0] - start[0], point[1] - start[1]
    along = (px * dx + py * dy) / (dx * dx + dy * dy)
    return 0 < along < 1 and abs(px * dy - py * dx) / math.hypot(dx, dy) < 1.2 * _RADIUS


def _arrow(axes: Axes, begin: tuple[float, float], end: tuple[float, float], curve: float = 0.0) -> None:
    """An arrow exactly from point to point."""
    axes.add_patch(
        FancyArrowPatch(
            begin,
            end,
            connectionstyle=f"arc3,rad={curve}",
            arrowstyle="-|>",
            mutation_scale=12,
            color=MUTED,
            linewidth=1.2,
            shrinkA=0,
            shrinkB=0,
        )
    )


def _edge(axes: Axes, start: tuple[float, float], end: tuple[float, float], label: str, bend: float) -> None:
    """An arrow from circle to circle; ``bend`` swings it to its left, for pairs of states that lead to each other."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    distance = math.hypot(dx, dy)
    ux, uy = dx / distance, dy / distance
    nx, ny = -uy, ux  # to the left of the direction of travel
    cos, sin = math.cos(2 * bend), math.sin(2 * bend)
    begin = (start[0] + _RADIUS * (ux * cos + nx * sin), start[1] + _RADIUS * (uy * cos + ny * sin))
    finish = (end[0] - _RADIUS * (ux * cos - nx * sin), end[1] - _RADIUS * (uy * cos - ny * sin))
    _arrow(axes, begin, finish, -bend)
    lift = bend * distance * 0.6 + 0.08
    axes.text(
        (start[0] + end[0]) / 2 + nx * lift,
        (start[1] + end[1]) / 2 + ny * lift,
        label,
        ha="left" if nx > 0.3 else "right" if nx < -0.3 else "center",
        va="bottom" if ny > 0.1 else "top",
        fontsize=8.5,
        zorder=6,
    )


def _loop(axes: Axes, centre: tuple[float, float], label: str, down: bool) -> None:
    """An arrow from a state to itself, above it or below it."""
    x, y = centre
    side = -1 if down else 1
    _arrow(axes, (x - 0.12, y + side * _RADIUS * 0.9), (x + 0.12, y + side * _RADIUS * 0.9), -side * 1.9)
    axes.text(
        x,
        y + side * (_RADIUS + 0.32),
        label,
        ha="center",
        va="top" if down else "bottom",
        fontsize=8.5,
        zorder=6,
    )
