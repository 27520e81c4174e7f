"""Drawings of automata that read words."""

from __future__ import annotations

import numpy as np
from matplotlib.patches import Circle, FancyArrowPatch

from sttau_reproduction.automata.words import WordMove, words_figure

MOVES = [WordMove(0, 1, 5.0, ("superb", "moving")), WordMove(2, 0, 1.0, ("dull",))]


def test_every_state_and_move_is_drawn_with_its_words() -> None:
    (axes,) = words_figure([0.5, 0.3, 0.2], [0.1, 0.9, 0.5], MOVES, "joy").axes
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert (len(circles), len(arrows)) == (3, 2)
    texts = [text.get_text() for text in axes.texts]
    assert {"superb\nmoving", "dull", "0.10\n50 %"} <= set(texts)
    assert axes.get_xlabel() == "states, by probability of joy"


def test_states_stand_in_the_order_of_probability_and_do_not_overlap() -> None:
    positive = [0.9, 0.1, 0.5, 0.3, 0.7, 0.2]
    (axes,) = words_figure([1 / 6] * 6, positive, []).axes
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    centers = np.array([circle.get_center() for circle in circles])
    assert centers[:, 0].argsort().tolist() == np.argsort(positive).tolist()
    distances = np.linalg.norm(centers[:, None] - centers, axis=-1) + 10 * np.eye(6)
    assert distances.min() > 2 * max(circle.get_radius() for circle in circles)


def test_a_state_that_is_visited_more_and_a_move_that_is_made_more_are_drawn_larger() -> None:
    (axes,) = words_figure([0.7, 0.2, 0.1], [0.1, 0.9, 0.5], MOVES).axes
    radii = [patch.get_radius() for patch in axes.patches if isinstance(patch, Circle)]
    widths = [patch.get_linewidth() for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert radii[0] > radii[1] > radii[2]
    assert widths[0] > widths[1]
