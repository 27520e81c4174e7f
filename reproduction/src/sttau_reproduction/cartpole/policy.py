"""The policy whose automaton is drawn: trained once, its automaton kept in ``automaton.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from sttau.automata import PA, from_json, to_json
from sttau.files import write_atomically
from sttau.rl import Environments, Settings, find_task, make_policy, observed_automaton, play, train

_EPISODES = 200


class Observed(NamedTuple):
    """What is in ``automaton.json``."""

    reward: float  # mean over episodes
    automaton: PA


def write_automaton_of_policy(path: Path) -> Path:
    """Train ST-τ on CartPole without velocities, observe its automaton while it acts, and write that."""
    task = find_task("cartpole-pomdp")
    policy = make_policy("st-tau", task)
    train(policy, task, Settings(choice="greedy"))
    with Environments(task, copies=_EPISODES) as environments:
        played = play(policy, environments, choice="greedy", seed=1)
    pa = observed_automaton(policy, played, task).pa
    content = {"reward": float(played.scores.mean()), "pa": json.loads(to_json(pa))}
    return write_atomically(path, (json.dumps(content, ensure_ascii=False) + "\n").encode())


def read_automaton_of_policy(path: Path) -> Observed:
    """Read what :func:`write_automaton_of_policy` wrote."""
    content = json.loads(path.read_text("utf-8"))
    pa = from_json(json.dumps(content["pa"]))
    assert isinstance(pa, PA)
    return Observed(content["reward"], pa)
