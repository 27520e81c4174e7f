"""Layout of drawings of automata: positions of states, curves of arrows, positions of labels.

States are placed in levels, by their distance from the initial state, or on a circle: whichever has fewer crossings,
arrows through states and overlapping labels. A label lies on its arrow, at the position where it hides least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sttau.automata.exchange import Diagram

Points = NDArray[np.float64]

RADIUS = 0.26  # of a state; one unit is about two characters high and ten wide
_LETTER = 0.105
_LINE = 0.2
_LOOP = 1.4  # distance of a loop's control points from the center of its state


class Arrow(NamedTuple):
    """An arrow between states as the control points of a Bézier curve, and its label."""

    control: Points  # (3, 2), or (4, 2) for a loop
    ends: tuple[int, int]
    label: str
    size: tuple[float, float]  # width and height of the label

    def at(self, t: NDArray[np.float64] | Sequence[float]) -> Points:
        """Points of the curve, (n, 2)."""
        t = np.asarray(t)[:, None]
        degree = len(self.control) - 1
        weights = [math.comb(degree, n) * t**n * (1 - t) ** (degree - n) for n in range(degree + 1)]
        return sum((w * p for w, p in zip(weights, self.control, strict=True)), np.zeros((len(t), 2)))


class Layout(NamedTuple):
    """Positions of everything in a drawing, and the cost of the layout."""

    places: Points  # (states, 2)
    starts: dict[int, float]  # angle from which the arrow of an initial state comes
    arrows: list[Arrow]
    labels: Points  # (arrows, 2): center of each label
    cost: float


def arrange(shown: Diagram, smallest: float) -> Layout:
    """Return the better of two layouts; the circle if there are many arrows."""
    ways = [_circle(shown)] if _density(shown) > 3 else [_levels(shown), _circle(shown)]
    return min((_lay_out(shown, places, smallest) for places in ways), key=lambda layout: layout.cost)


def _density(shown: Diagram) -> float:
    """Arrows between different states, per state."""
    return sum(i != j for i, j in shown.edges) / len(shown.output)


def _size(labels: Sequence[str]) -> tuple[str, tuple[float, float]]:
    """Label of an arrow and its size: short symbols on one line, others one per line."""
    text = ", ".join(labels) if all(len(label) <= 2 for label in labels) else "\n".join(labels)
    lines = text.split("\n")
    return text, (_LETTER * max(map(len, lines)) + 0.06, _LINE * len(lines))


def _spacing(shown: Diagram) -> float:
    """Distance of neighboring states, so that a label fits between them."""
    widths = [_size(labels)[1][0] for (i, j), labels in shown.edges.items() if i != j]
    return max(1.6, 2 * RADIUS + 0.5 + max(widths, default=0.0))


def _levels(shown: Diagram) -> Points:
    """Positions in columns by distance from the initial state."""
    start = int(np.argmax(shown.initial))
    level = {start: 0}
    queue = [start]
    for state in queue:
        for source, target in shown.edges:
            if source == state and target not in level:
                level[target] = level[state] + 1
                queue.append(target)
    for state in range(len(shown.output)):
        level.setdefault(state, max(level.values()) + (state not in level))
    rows: dict[int, list[int]] = {}
    for state in sorted(level, key=lambda s: (level[s], queue.index(s) if s in queue else s)):
        rows.setdefault(level[state], []).append(state)
    wide = _spacing(shown)
    places = np.zeros((len(shown.output), 2))
    for column, states in rows.items():
        for row, state in enumerate(states):
            places[state] = wide * column, max(1.9, 0.8 * wide) * ((len(states) - 1) / 2 - row)
    return _with_fewer_crossings(places, list(rows.values()), shown)


def _with_fewer_crossings(places: Points, columns: list[list[int]], shown: Diagram) -> Points:
    """Positions after exchanging states of a column as long as fewer straight arrows cross or pass through a state."""
    pairs = sorted({(min(pair), max(pair)) for pair in shown.edges if pair[0] != pair[1]})
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    share = (ends[:, None, :, None] == ends[None, :, None, :]).any((2, 3))  # arrows with a common state do not cross
    own = (ends[:, :, None] == np.arange(len(places))).any(1)

    def cost(places: Points) -> float:
        p, q = places[ends[:, 0]], places[ends[:, 1]]
        crossing = _between(p[:, None], q[:, None], p, q) & ~share
        line = q - p
        along = np.clip(((places - p[:, None]) * line[:, None]).sum(-1) / (line**2).sum(-1)[:, None], 0, 1)
        gaps = np.linalg.norm(places - p[:, None] - along[..., None] * line[:, None], axis=-1)
        through = (gaps < 1.35 * RADIUS) & ~own
        return float(crossing.sum() / 2 + 3 * through.sum() + 0.05 * np.linalg.norm(line, axis=-1).sum())

    best, improved = cost(places), len(ends) > 0
    while improved:
        improved = False
        for one, other in (pair for column in columns for pair in combinations(column, 2)):
            exchanged = places.copy()
            exchanged[[one, other]] = places[[other, one]]
            if (now := cost(exchanged)) < best - 1e-9:
                places, best, improved = exchanged, now, True
    return places


def _circle(shown: Diagram) -> Points:
    """Positions on a circle, the initial state at the left, in an order with few crossings and short arrows."""
    n = len(shown.output)
    ends = np.array([pair for pair in shown.edges if pair[0] != pair[1]], dtype=np.int64).reshape(-1, 2)

    def cost(order: NDArray[np.int64]) -> float:
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        a, b = np.sort(place[ends], axis=1).T
        between = (a[:, None] < a) & (a < b[:, None]) & (b > b[:, None])
        return float(between.sum() + np.sin(np.pi * (b - a) / n).sum())

    order = np.arange(n)
    best = cost(order)
    improved = len(ends) > 0
    while improved:
        improved = False
        for i, j in combinations(range(n), 2):
            order[[i, j]] = order[[j, i]]
            if (now := cost(order)) < best - 1e-9:
                best, improved = now, True
            else:
                order[[i, j]] = order[[j, i]]
    shift = int(np.flatnonzero(order == int(np.argmax(shown.initial)))[0])
    order = np.roll(order, -shift)
    roomy = max(1.0, 0.5 + 0.2 * _density(shown))
    radius = 0.0 if n == 1 else roomy * _spacing(shown) / (2 * math.sin(math.pi / n))
    angles = math.pi - 2 * math.pi * np.arange(n) / n
    places = np.empty((n, 2))
    places[order] = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return places


def _lay_out(shown: Diagram, places: Points, smallest: float) -> Layout:
    """Place arrows and labels for given positions of the states, and compute the cost."""
    middle = places.mean(axis=0)
    starts = {}
    for state, chance in enumerate(shown.initial):
        if chance >= max(smallest, 1e-300):
            away = places[state] - middle
            starts[state] = (
                math.pi if abs(away[1]) < abs(away[0]) * 2 and away[0] <= 0 else math.atan2(away[1], away[0])
            )
    taken: dict[int, list[float]] = {state: [starts[state]] if state in starts else [] for state in range(len(places))}
    arrows = []
    for (i, j), labels in shown.edges.items():
        if i != j:
            arrow = _straight_or_bent(places, i, j, labels, shown.edges.get((j, i)))
            arrows.append(arrow)
            for state, towards in ((i, arrow.control[1]), (j, arrow.control[1])):
                dx, dy = towards - places[state]
                taken[state].append(math.atan2(dy, dx))
    for (i, j), labels in shown.edges.items():
        if i == j:
            arrows.append(_loop(places[i], i, labels, taken[i], places[i] - middle))
    labels_at, cost = _place_labels(arrows, places)
    return Layout(places, starts, arrows, labels_at, cost + _crossings(arrows, places))


def _straight_or_bent(places: Points, i: int, j: int, labels: Sequence[str], back: Sequence[str] | None) -> Arrow:
    """An arrow between two states; it bends if there is one ``back``, or around another state."""
    start, end = places[i], places[j]
    text, size = _size(labels)
    others = np.delete(places, [i, j], axis=0)
    bends = [0.0, 0.12, -0.12, 0.25, -0.25, 0.45, -0.45]
    if back is not None:  # leaves room for both labels
        between = (size[1] + _size(back)[1][1]) / 2 + 0.06
        bends = [max(0.16, between / float(np.linalg.norm(end - start))) + more for more in (0.0, 0.18, 0.36)]
    best: tuple[float, Arrow] | None = None
    for bend in bends:
        dx, dy = end - start
        control = (start + end) / 2 + bend * np.array([-dy, dx])
        arrow = Arrow(_trimmed(np.stack([start, control, end])), (i, j), text, size)
        points = arrow.at(np.linspace(0, 1, 25))
        gaps = np.linalg.norm(points[:, None] - others, axis=-1)
        hits = float((gaps < 1.35 * RADIUS).sum()) if others.size else 0.0
        if best is None or hits < best[0]:
            best = hits, arrow
    assert best is not None
    return best[1]


def _trimmed(control: Points) -> Points:
    """The part of a quadratic Bézier curve between the circles around its ends."""
    curve = Arrow(control, (0, 0), "", (0, 0))
    t = np.linspace(0, 1, 401)
    points = curve.at(t)
    outside = (np.linalg.norm(points - control[0], axis=1) > RADIUS) & (
        np.linalg.norm(points - control[2], axis=1) > RADIUS
    )
    low, high = t[outside][0], t[outside][-1]
    p, q, r = control

    def blossom(s: float, u: float) -> Points:
        a, b = (1 - s) * p + s * q, (1 - s) * q + s * r
        return np.asarray((1 - u) * a + u * b)

    return np.stack([blossom(low, low), blossom(low, high), blossom(high, high)])


def _loop(center: Points, state: int, labels: Sequence[str], taken: list[float], outward: Points) -> Arrow:
    """An arrow from a state to itself, at the angle with most room between the other arrows."""
    candidates = np.linspace(-math.pi, math.pi, 24, endpoint=False) + math.pi / 2
    wish = math.atan2(outward[1], outward[0]) if np.linalg.norm(outward) > 1e-9 else math.pi / 2

    def room(angle: float) -> float:
        gaps = [abs(math.remainder(angle - other, 2 * math.pi)) for other in taken]
        return min([*gaps, 1.0]) + 0.05 * math.cos(angle - wish) + 0.02 * abs(math.sin(angle))

    angle = max(candidates.tolist(), key=room)
    text, size = _size(labels)
    turns = angle + np.array([-0.45, -0.42, 0.42, 0.45])
    reach = np.array([RADIUS, _LOOP, _LOOP, RADIUS])
    points = center + reach[:, None] * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return Arrow(points, (state, state), text, size)


def _place_labels(arrows: list[Arrow], places: Points) -> tuple[Points, float]:
    """Positions of the labels, and the cost of what they hide: other labels, states, other arrows."""
    if not arrows:
        return np.zeros((0, 2)), 0.0
    sizes = np.array([arrow.size for arrow in arrows])
    curves = np.stack([arrow.at(np.linspace(0, 1, 25)) for arrow in arrows])
    steps = np.linspace(0.24, 0.76, 14)
    candidates = []
    for arrow, size in zip(arrows, sizes, strict=True):
        points = arrow.at(steps)
        if arrow.ends[0] == arrow.ends[1]:  # beyond the top of the loop
            top = arrow.at([0.5])[0]
            away = (top - places[arrow.ends[0]]) / np.linalg.norm(top - places[arrow.ends[0]])
            edge = float(np.min(size / 2 / np.maximum(np.abs(away), 1e-9)))  # from the label's center to its border
            points = top + (edge + np.array([-0.1, 0.0, 0.05, 0.2]))[:, None] * away
        candidates.append(points)
    chosen = np.stack([points[len(points) // 2] for points in candidates])

    def badness(n: int, points: Points) -> Points:
        width, height = sizes[n] / 2
        apart = np.abs(points[:, None] - np.delete(chosen, n, axis=0))
        reach = (sizes[n] + np.delete(sizes, n, axis=0)) / 2 + 0.03
        overlap = np.prod(np.clip(reach - apart, 0, None), axis=-1).sum(-1)
        near = np.clip(np.abs(points[:, None] - places) - sizes[n] / 2, 0, None)
        states = np.clip(1.15 * RADIUS - np.linalg.norm(near, axis=-1), 0, None).sum(-1)
        other = np.delete(curves, n, axis=0).reshape(-1, 2)
        inside = (np.abs(points[:, None] - other) < np.array([width, height])).all(-1).sum(-1)
        middle = np.abs(np.arange(len(points)) - (len(points) - 1) / 2) / len(points)
        return np.asarray(40 * overlap + 30 * states + 0.35 * inside + 0.4 * middle)

    for _ in range(4):
        for n in np.argsort([len(points) for points in candidates], kind="stable"):
            scores = badness(n, candidates[n])
            chosen[n] = candidates[n][int(scores.argmin())]
    return chosen, float(sum(badness(n, chosen[n : n + 1])[0] for n in range(len(arrows))))


def _crossings(arrows: list[Arrow], places: Points) -> float:
    """Cost of arrows that cross, overlap or pass through a state, and of their length."""
    between = [arrow for arrow in arrows if arrow.ends[0] != arrow.ends[1]]
    curves = [arrow.at(np.linspace(0, 1, 13)) for arrow in between]
    cost = 0.0
    for one, other in combinations(range(len(between)), 2):
        cost += _cross(curves[one], curves[other])
        gaps = np.linalg.norm(curves[one][2:-2, None] - curves[other][None, 2:-2], axis=-1).min(axis=1)
        cost += 2.0 * float((gaps < 0.12).sum() > 2)  # they overlap
    for arrow, curve in zip(between, curves, strict=True):
        others = np.delete(places, list(arrow.ends), axis=0)
        if others.size:
            cost += 12.0 * bool((np.linalg.norm(curve[:, None] - others, axis=-1) < 1.1 * RADIUS).any())
        cost += 0.1 * float(np.linalg.norm(np.diff(curve, axis=0), axis=1).sum())
    return cost


def _cross(a: Points, b: Points) -> int:
    """Number of crossings of two polylines."""
    return int(_between(a[:-1, None], a[1:, None], b[None, :-1], b[None, 1:]).sum())


def _between(p: Points, q: Points, r: Points, s: Points) -> NDArray[np.bool_]:
    """Whether the segments from p to q and from r to s cross."""

    def side(p: Points, q: Points, r: Points) -> Points:
        a, b = q - p, r - p
        return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])

    crossing = (side(p, q, r) * side(p, q, s) < 0) & (side(r, s, p) * side(r, s, q) < 0)
    return np.asarray(crossing)


def extent(layout: Layout) -> tuple[Points, Points]:
    """Return the lower left and upper right corner of the drawing."""
    parts = [layout.places - RADIUS, layout.places + RADIUS]
    parts += [arrow.at(np.linspace(0, 1, 13)) for arrow in layout.arrows]
    for arrow, middle in zip(layout.arrows, layout.labels, strict=True):
        parts += [middle[None] - np.array(arrow.size) / 2, middle[None] + np.array(arrow.size) / 2]
    for state, angle in layout.starts.items():
        parts.append(layout.places[state] + 4.6 * RADIUS * np.array([[math.cos(angle), math.sin(angle)]]))
    points = np.concatenate(parts)
    return points.min(axis=0) - 0.12, points.max(axis=0) + 0.12
