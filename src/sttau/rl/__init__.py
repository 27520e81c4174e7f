"""Reinforcement learning with recurrent policies: tasks, policies and their training."""

from sttau.rl.environments import TASKS, Environments, Task, find_task
from sttau.rl.observed import ObservedAutomaton, observed_automaton
from sttau.rl.policies import Choice, Player, Role, make_policy, recall
from sttau.rl.training import Episodes, Point, Settings, play, train

__all__ = [
    "TASKS",
    "Choice",
    "Environments",
    "Episodes",
    "ObservedAutomaton",
    "Player",
    "Point",
    "Role",
    "Settings",
    "Task",
    "find_task",
    "make_policy",
    "observed_automaton",
    "play",
    "recall",
    "train",
]
