from __future__ import annotations

import pytest
import torch

from sttau.engine import Noise
from sttau.rl import Episodes, find_task, make_policy, observed_automaton

TASK = find_task("cartpole-pomdp")


def _episodes(states: list[list[int]], angles: list[list[float]], lengths: list[int]) -> Episodes:
    path = torch.tensor(states)
    p = torch.nn.functional.one_hot(path, 2).float()
    x = torch.stack([torch.zeros(path.shape), torch.tensor(angles)], dim=-1)
    return Episodes(x, p, p, path, torch.ones(path.shape), torch.tensor(lengths), Noise.of(torch.arange(len(path))))


def test_the_automaton_counts_moves_between_states_by_the_sign_that_was_read() -> None:
    episodes = _episodes([[0, 1, 1, 0], [1, 0, 0, 0]], [[1, 1, 1, -1], [-1, -1, 9, 9]], [4, 2])
    pa = observed_automaton(make_policy("st-tau", TASK, hidden_size=4), episodes, TASK)
    assert pa.alphabet == ("angle −", "angle +")
    assert pa.initial.tolist() == [0.5, 0.5]
    assert pa.matrices[1].tolist() == [[0, 1], [0, 1]]  # beyond an episode's end nothing counts
    assert pa.matrices[0].tolist() == [[0.5, 0.5], [1, 0]]  # from 0 under a negative angle: no data
    assert pa.output.tolist() == [0, 1]


def test_only_states_that_are_actions_make_an_automaton() -> None:
    episodes = _episodes([[0, 1]], [[1, 1]], [2])
    with pytest.raises(ValueError, match="whose states are its actions"):
        observed_automaton(make_policy("lstm", TASK, hidden_size=4), episodes, TASK)
    with pytest.raises(ValueError, match="has no observation 'speed'; choose one of position, angle"):
        observed_automaton(make_policy("st-tau", TASK, hidden_size=4), episodes, TASK, by="speed")
