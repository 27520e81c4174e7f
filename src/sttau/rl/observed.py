"""The automaton observed while a policy acts."""

from __future__ import annotations

import torch

from sttau.automata import PA
from sttau.models import FixedLabels, SequenceClassifier
from sttau.rl.environments import Task
from sttau.rl.training import Episodes


def observed_automaton(policy: SequenceClassifier, episodes: Episodes, task: Task, by: str = "") -> PA:
    """The automaton that a policy with one state an action was seen to be, while it played.

    Its symbols are the signs of one observation; it moves from the most probable state at a step to that at the next,
    and ``output`` is how often the last of the task's actions was done in a state. What the states do not remember (an
    LSTM's memory, the size of the observation) shows as chance.

    Args:
        policy: made with a state for every action.
        episodes: that it played.
        task: for the names.
        by: the observation whose sign is read; the angle, or else the first.
    """
    if not isinstance(policy.head, FixedLabels):
        raise ValueError("an automaton needs a policy whose states are its actions: ST-τ with a state for each")
    names = task.observations
    by = by or ("angle" if "angle" in names else names[0])
    if by not in names:
        raise ValueError(f"{task.name} shows no {by!r}; choose one of {', '.join(names)}")
    k = len(task.actions)
    states = episodes.probabilities.argmax(-1)
    signs = (episodes.observations[..., names.index(by)] > 0).long()
    counts = torch.zeros(2, k, k, dtype=torch.float64)
    done, visits = torch.zeros(k, dtype=torch.float64), torch.zeros(k, dtype=torch.float64)
    first = torch.zeros(k, dtype=torch.float64)
    for row, length in enumerate(episodes.lengths.tolist()):
        path = states[row, :length]
        first[path[0]] += 1
        counts.index_put_((signs[row, 1:length], path[:-1], path[1:]), torch.ones(1).double(), accumulate=True)
        visits.index_put_((path,), torch.ones(1).double(), accumulate=True)
        done.index_put_((path,), (episodes.actions[row, :length] == k - 1).double(), accumulate=True)
    unseen = counts.sum(-1, keepdim=True) == 0
    counts = torch.where(unseen, torch.ones_like(counts), counts)  # never seen: anything may follow
    return PA(
        first / first.sum(), counts / counts.sum(-1, keepdim=True), done / visits.clamp_min(1), (f"{by} −", f"{by} +")
    )
