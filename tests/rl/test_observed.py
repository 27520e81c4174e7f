from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sttau.automata.exchange import diagram
from sttau.engine import Noise
from sttau.plotting.automaton import write_automaton
from sttau.rl import Episodes, find_task, make_policy, observed_automaton

TASK = find_task("cartpole-pomdp")


def _episodes(states: list[list[int]], angles: list[list[float]], lengths: list[int]) -> Episodes:
    path = torch.tensor(states)
    p = torch.nn.functional.one_hot(path, 2).float()
    x = torch.stack([torch.zeros(path.shape), torch.tensor(angles)], dim=-1)
    return Episodes(x, p, p, path, torch.ones(path.shape), torch.tensor(lengths), Noise.of(torch.arange(len(path))))


def test_the_automaton_counts_moves_between_states_by_the_sign_that_was_read() -> None:
    episodes = _episodes([[0, 1, 1, 0], [1, 0, 0, 0]], [[1, 1, 1, -1], [-1, -1, 9, 9]], [4, 2])
    observed = observed_automaton(make_policy("st-tau", TASK, hidden_size=4), episodes, TASK)
    pa = observed.pa
    assert pa.alphabet == ("angle −", "angle +")
    assert pa.initial.tolist() == [0.5, 0.5]
    assert pa.matrices[1].tolist() == [[0, 1], [0, 1]]  # beyond an episode's end nothing counts
    assert pa.matrices[0].tolist()[1] == [1, 0]
    assert pa.output.tolist() == [0, 1]
    assert observed.counts.tolist() == [[[0, 0], [2, 0]], [[0, 1], [0, 1]]]


def test_a_move_that_was_never_seen_is_not_drawn(tmp_path: Path) -> None:
    episodes = _episodes([[0, 1, 1, 0]], [[1, 1, 1, -1]], [4])
    observed = observed_automaton(make_policy("st-tau", TASK, hidden_size=4), episodes, TASK)
    assert observed.unseen == ((0, "angle −"),)
    shown = diagram(observed.pa, hidden=observed.unseen).edges
    assert shown == {(0, 1): ["angle + [1.00]"], (1, 0): ["angle − [1.00]"], (1, 1): ["angle + [1.00]"]}
    drawn = write_automaton(observed.pa, tmp_path / "automaton.dot", hidden=observed.unseen).read_text("utf-8")
    assert "0.50" not in drawn
    with pytest.raises(
        ValueError, match=r"automaton.json would define moves that are not known \(state 0 under 'angle −'"
    ):
        write_automaton(observed.pa, tmp_path / "automaton.json", hidden=observed.unseen)


def test_only_states_that_are_actions_make_an_automaton() -> None:
    episodes = _episodes([[0, 1]], [[1, 1]], [2])
    with pytest.raises(ValueError, match="whose states are its actions"):
        observed_automaton(make_policy("lstm", TASK, hidden_size=4), episodes, TASK)
    with pytest.raises(ValueError, match="has no observation 'speed'; choose one of position, angle"):
        observed_automaton(make_policy("st-tau", TASK, hidden_size=4), episodes, TASK, by="speed")
