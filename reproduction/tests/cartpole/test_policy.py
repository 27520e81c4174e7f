from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sttau.rl import observed_automaton
from sttau_reproduction.cartpole import policy
from sttau_reproduction.cartpole.policy import read_automaton_of_policy, write_automaton_of_policy


def test_the_automaton_that_was_observed_is_written_with_its_reward_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def watch(network: Any, played: Any, task: Any) -> Any:
        found = observed_automaton(network, played, task)
        seen.append((played.scores.tolist(), found.pa))
        return found

    monkeypatch.setattr(policy, "train", lambda *_: None)
    monkeypatch.setattr(policy, "_EPISODES", 4)
    monkeypatch.setattr(policy, "observed_automaton", watch)
    found = read_automaton_of_policy(write_automaton_of_policy(tmp_path / "automaton.json"))
    ((scores, pa),) = seen
    assert len(scores) == 4
    assert found.reward == pytest.approx(sum(scores) / 4)
    assert found.automaton == pa
