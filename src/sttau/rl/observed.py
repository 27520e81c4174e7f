"""Automata estimated from the episodes of a policy."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sttau.automata import PA
from sttau.models import FixedLabels, SequenceClassifier
from sttau.rl.environments import Task
from sttau.rl.training import Episodes


class ObservedAutomaton(NamedTuple):
    """The automaton of a policy's episodes.

    Attributes:
        pa: Frequencies of the moves; uniform in the rows of ``unseen``, where there is no data.
        counts: (symbols, k, k) number of times that each move was observed.
    """

    pa: PA
    counts: Tensor

    @property
    def unseen(self) -> tuple[tuple[int, str], ...]:
        """Pairs (state, symbol) that never occurred; ``hidden=`` of a drawing leaves their moves out."""
        never = (self.counts.sum(-1) == 0).nonzero().tolist()
        return tuple((state, self.pa.alphabet[symbol]) for symbol, state in never)


def observed_automaton(policy: SequenceClassifier, episodes: Episodes, task: Task, by: str = "") -> ObservedAutomaton:
    """Estimate the automaton of a policy with one state per action from its episodes.

    Its symbols are the signs of one observation; it moves from the most probable state at a step to that at the next,
    and ``output`` is the frequency of the last of the task's actions in a state. What the states do not represent (an
    LSTM's memory, the size of the observation) appears as randomness.

    Args:
        policy: Policy with one state per action.
        episodes: Episodes of the policy.
        task: Task of the episodes.
        by: Observation whose sign is the symbol; by default the angle, or else the first observation.
    """
    if not isinstance(policy.head, FixedLabels):
        raise ValueError("an automaton needs a policy whose states are its actions: ST-τ with one state per action")
    names = task.observations
    by = by or ("angle" if "angle" in names else names[0])
    if by not in names:
        raise ValueError(f"{task.name} has no observation {by!r}; choose one of {', '.join(names)}")
    k = len(task.actions)
    states = episodes.probabilities.argmax(-1)
    signs = (episodes.observations[..., names.index(by)] > 0).long()
    counts = torch.zeros(2, k, k, dtype=torch.float64)
    last_action, visits = torch.zeros(k, dtype=torch.float64), torch.zeros(k, dtype=torch.float64)
    first = torch.zeros(k, dtype=torch.float64)
    for row, length in enumerate(episodes.lengths.tolist()):
        path = states[row, :length]
        first[path[0]] += 1
        counts.index_put_((signs[row, 1:length], path[:-1], path[1:]), torch.ones(1).double(), accumulate=True)
        visits.index_put_((path,), torch.ones(1).double(), accumulate=True)
        last_action.index_put_((path,), (episodes.actions[row, :length] == k - 1).double(), accumulate=True)
    total = counts.sum(-1, keepdim=True)
    frequencies = torch.where(total > 0, counts / total.clamp_min(1), torch.full_like(counts, 1 / k))
    pa = PA(first / first.sum(), frequencies, last_action / visits.clamp_min(1), (f"{by} −", f"{by} +"))
    return ObservedAutomaton(pa, counts)
