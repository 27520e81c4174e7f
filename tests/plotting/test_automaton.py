from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from automata.fa.dfa import DFA
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Wedge

from sttau.automata import PA, from_json, random_dfa, random_pa, stochastic, to_dot, to_prism, tomita
from sttau.automata.exchange import Diagram, diagram
from sttau.plotting.automaton import draw_automaton, drawing, save_drawing, write_automaton
from sttau.plotting.automaton_layout import RADIUS, Layout, _circle, _levels, arrange, extent

AUTOMATA: dict[str, DFA | PA] = {f"tomita {number}": tomita(number) for number in range(1, 8)}
AUTOMATA |= {f"PA-{number}": stochastic(number) for number in (1, 2)}
AUTOMATA |= {f"random DFA of {size}": random_dfa(size, seed=size) for size in (8, 12)}
AUTOMATA |= {"random PA of 5": random_pa(5, seed=0), "random PA of 10": random_pa(10, seed=1, concentration=0.05)}
AUTOMATA |= {"one state": PA(torch.ones(1), torch.ones(1, 1, 1), torch.ones(1), ("a",))}
every = pytest.mark.parametrize("automaton", AUTOMATA.values(), ids=AUTOMATA)


@every
def test_a_drawing_shows_every_state_every_edge_and_which_states_accept(automaton: DFA | PA) -> None:
    shown = diagram(automaton)
    axes = Figure().subplots()
    draw_automaton(axes, automaton, "title")
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert len(circles) == len(shown.output) + sum(chance == 1 for chance in shown.output)
    assert len(arrows) == len(shown.edges) + 1
    written = [s for text in axes.texts for s in text.get_text().replace("\n", ", ").split(", ")]
    expected = [str(state) for state in range(len(shown.output))] + [
        s for labels in shown.edges.values() for s in labels
    ]
    assert sorted(written) == sorted(expected)


@every
def test_states_and_labels_do_not_overlap(automaton: DFA | PA) -> None:
    shown = diagram(automaton)
    layout = arrange(shown, 0.005)
    for places in (_levels(shown), _circle(shown), layout.places):
        gaps = np.linalg.norm(places[:, None] - places, axis=-1) + 9 * np.eye(len(places))
        assert gaps.min() > 1
    if len(shown.edges) > 24:
        return  # with so many arrows some labels touch
    sizes = np.array([arrow.size for arrow in layout.arrows])
    apart = np.abs(layout.labels[:, None] - layout.labels)
    overlap = np.clip((sizes[:, None] + sizes) / 2 - apart, 0, None).prod(-1) * (1 - np.eye(len(sizes)))
    assert overlap.max() < 0.02  # square units; a label of four characters has 0.1


def _through(layout: Layout) -> int:
    """Number of states that an arrow between two others passes through."""
    found = 0
    for arrow in layout.arrows:
        others = np.delete(layout.places, list(arrow.ends), axis=0)
        gaps = np.linalg.norm(arrow.at(np.linspace(0, 1, 61))[:, None] - others, axis=-1)
        found += int((gaps.min(axis=0, initial=9.0) < RADIUS).sum())
    return found


@pytest.mark.parametrize(("seed", "alphabet", "labeled"), [(0, "ab", False), (3, "ab", True), (2, "abc", False)])
def test_a_drawing_of_20_states_is_readable(seed: int, alphabet: str, labeled: bool) -> None:
    dfa = random_dfa(20, alphabet, seed=seed)
    values = {(state, symbol): 0.97 for state in range(20) for symbol in alphabet} if labeled else None
    layout = arrange(diagram(dfa, probabilities=values, variances=values), 0.005)
    assert _through(layout) == 0
    sizes = np.array([arrow.size for arrow in layout.arrows])
    apart = np.abs(layout.labels[:, None] - layout.labels)
    touching = (apart < (sizes[:, None] + sizes) / 2 - 0.02).all(-1) & ~np.eye(len(sizes), dtype=bool)
    assert not touching.any()
    near = np.clip(np.abs(layout.labels[:, None] - layout.places) - sizes[:, None] / 2, 0, None)
    assert np.linalg.norm(near, axis=-1).min() > RADIUS  # no label hides a state
    low, high = extent(layout)
    assert (high - low).max() < 25  # units of two characters' height: a page


def test_states_of_a_column_are_ordered_so_that_fewer_arrows_cross() -> None:
    # 0 leads to 1, 2 and 3, and these to 6, 5 and 4: in the order of their numbers all three arrows cross
    moves = {0: {"a": 1, "b": 2, "c": 3}, 1: {"a": 6}, 2: {"a": 5}, 3: {"a": 4}}
    edges = {(source, target): [symbol] for source, row in moves.items() for symbol, target in row.items()}
    places = _levels(Diagram([1.0] + [0.0] * 6, [0.0] * 7, edges))
    middle, last = places[[1, 2, 3], 1], places[[6, 5, 4], 1]
    assert (np.argsort(middle) == np.argsort(last)).all()


@pytest.mark.parametrize("seed", range(5))
def test_arrows_begin_and_end_at_the_circles_of_their_states(seed: int) -> None:
    layout = arrange(diagram(random_dfa(7, seed=seed)), 0.005)
    for arrow in layout.arrows:
        for state, point in zip(arrow.ends, arrow.control[[0, -1]], strict=True):
            assert np.linalg.norm(point - layout.places[state]) == pytest.approx(0.26, abs=0.02)


def test_probabilities_are_added_to_the_label() -> None:
    axes = Figure().subplots()
    draw_automaton(axes, tomita(1), probabilities={(s, a): 0.25 for s in (0, 1) for a in "01"})
    assert "0 [0.250]" in [text.get_text() for text in axes.texts]


def test_states_are_filled_by_their_output_and_initial_states_have_their_probability() -> None:
    pa = PA(torch.tensor([0.25, 0.75]), torch.full((1, 2, 2), 0.5), torch.tensor([0.4, 1]), ("a",))
    axes = drawing(pa, "title").axes[0]
    wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]
    assert [wedge.theta2 - wedge.theta1 for wedge in wedges] == [pytest.approx(144)]
    assert {"0\n0.40", "1", "0.25", "0.75"} <= {text.get_text() for text in axes.texts}


@pytest.mark.parametrize(("kind", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_drawings_are_saved_the_same_every_time(kind: str, begins: bytes, tmp_path: Path) -> None:
    one, two = (save_drawing(drawing(stochastic(2)), tmp_path / f"{n}.{kind}").read_bytes() for n in "ab")
    assert one.startswith(begins)
    assert one == two


def test_other_kinds_of_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"an \.svg or a \.png, got 'a\.pdf'"):
        save_drawing(drawing(tomita(1)), tmp_path / "a.pdf")


def test_a_long_label_makes_room_for_itself() -> None:
    values: dict[Any, float] = {(s, a): 0.25 for s in (0, 1) for a in "01"}
    plain, full = drawing(tomita(1)), drawing(tomita(1), probabilities=values, variances=values)
    assert full.get_size_inches()[0] > plain.get_size_inches()[0] + 0.5


@pytest.mark.parametrize("automaton", [tomita(3), stochastic(2)], ids=["DFA", "PA"])
def test_an_automaton_is_written_in_the_format_of_the_suffix(automaton: DFA | PA, tmp_path: Path) -> None:
    assert from_json(write_automaton(automaton, tmp_path / "a.json").read_text("utf-8")) is not None
    assert write_automaton(automaton, tmp_path / "a.dot").read_text("utf-8") == to_dot(automaton)
    assert write_automaton(automaton, tmp_path / "a.prism").read_text("utf-8") == to_prism(automaton)
    assert write_automaton(automaton, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"got 'a\.txt'"):
        write_automaton(automaton, tmp_path / "a.txt")
