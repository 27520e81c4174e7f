from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch

from sttau.automata import tomita
from sttau.report.automaton import _places, draw_dfa


@pytest.mark.parametrize("number", range(1, 8))
def test_a_drawing_shows_every_state_every_edge_and_which_states_accept(number: int) -> None:
    dfa = tomita(number)
    axes = Figure().subplots()
    draw_dfa(axes, dfa, "title")
    edges = {(state, target) for state, moves in dfa.transitions.items() for target in moves.values()}
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert len(circles) == len(dfa.states) + len(dfa.final_states)
    assert len(arrows) == len(edges) + 1
    symbols = [s for text in axes.texts for s in text.get_text().replace("\n", ", ").split(", ")]
    assert len(symbols) == len(dfa.states) + 2 * len(dfa.states)


def test_states_never_lie_on_each_other() -> None:
    for number in range(1, 8):
        places = list(_places(tomita(number)).values())
        assert len(set(places)) == len(places)


def test_probabilities_are_written_behind_the_symbol() -> None:
    axes = Figure().subplots()
    draw_dfa(axes, tomita(1), probabilities={(s, a): 0.25 for s in (0, 1) for a in "01"})
    assert "0 [0.250]" in [text.get_text() for text in axes.texts]
