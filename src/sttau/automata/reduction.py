"""Smaller automata: states that behave alike become one (ordinary lumpability), with a bound on what that costs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.automata.pa import PA


@dataclass(frozen=True)
class Reduction:
    """A PA whose states stand for groups of another's, and how far the two can be apart.

    Attributes:
        pa: the smaller automaton.
        members: the states of the larger one that each state stands for.
        left_out: the states of the larger one that no string reaches, or hardly any.
        leak: η, the largest probability to enter them in one step, or to start there; 0 where no string reaches them.
        defect: ε, the largest total variation between where a state goes and where its group goes, over symbols.
        output_defect: δ, the largest difference between a state's output and its group's.
        contraction: ρ ≤ 1, the largest total variation between two rows of one of the smaller automaton's matrices.
    """

    pa: PA
    members: tuple[tuple[int, ...], ...]
    left_out: tuple[int, ...]
    leak: float
    defect: float
    output_defect: float
    contraction: float

    def bound(self, length: int) -> float:
        """Bound on |p(x) − p'(x)| for every string x of n = ``length`` symbols; never more than n·ε + δ + (n + 1)·η.

        It is ε (1 + ρ + … + ρ^(n−1)) + δ + (n + 1) η. A run is followed in the larger automaton up to some step and in
        the smaller from there on; to move that step by one costs at most ε times the range of what can still be
        answered, which each symbol shrinks by ρ. Whoever enters a state that was left out may end anywhere.
        """
        if length < 0:
            raise ValueError(f"length must not be negative, got {length}")
        rho = self.contraction
        steps = length if rho >= 1 else (1 - rho**length) / (1 - rho)
        return min(1.0, self.defect * steps + self.output_defect + (length + 1) * self.leak)


def reduce(pa: PA, tolerance: float = 1e-9, *, leak: float = 0.0) -> Reduction:
    """Merge the states of a PA that have nearly the same output and move to the same groups, symbol by symbol.

    States that no string reaches are left out. Groups begin as coarse as outputs allow and are split until no two
    members of a group differ by more than the tolerance, in output or in total variation of the moves to groups. A
    group's row is the mean of its members', weighted by how often random strings visit them.

    Args:
        pa: any.
        tolerance: both defects stay below it. What was reached, and what it costs, stands in the result.
        leak: states are left out too where all of them together are entered with at most this probability a step. A
            network is never quite sure, so each of its states is reached by some string.

    Example:
        >>> doubled = PA([1, 0, 0], [[[0.5, 0.25, 0.25], [0.1, 0.9, 0], [0.1, 0.4, 0.5]]], [0, 1, 1], ("a",))
        >>> small = reduce(doubled)
        >>> small.members, small.bound(1000) < 1e-12
        (((0,), (1, 2)), True)
        >>> small.pa.matrices
        tensor([[[0.5000, 0.5000],
                 [0.1000, 0.9000]]], dtype=torch.float64)
    """
    if not tolerance >= 0 or not 0 <= leak < 1:
        raise ValueError(f"tolerance must be at least 0 and leak in [0, 1), got {tolerance} and {leak}")
    kept, leaked = _reachable(pa, leak)
    output = pa.output[kept]
    initial, matrices = (rows / rows.sum(-1, keepdim=True) for rows in (pa.initial[kept], _within(pa.matrices, kept)))
    group = _split(matrices, output, tolerance)
    into = F.one_hot(group).to(output.dtype)
    visits = _visits(initial, matrices.mean(0))
    share = into * visits[:, None] / (into.T @ visits)[group][:, None]  # (states, groups): weight within the group
    mass = matrices @ into
    small = PA(initial @ into, share.T @ mass, share.T @ output, pa.alphabet)
    return Reduction(
        pa=small,
        members=tuple(tuple(kept[group == g].tolist()) for g in range(into.shape[1])),
        left_out=tuple(sorted(set(range(pa.num_states)) - set(kept.tolist()))),
        leak=leaked,
        defect=float((mass - small.matrices[:, group]).abs().sum(-1).max() / 2),
        output_defect=float((output - small.output[group]).abs().max()),
        contraction=min(1.0, float((small.matrices[:, :, None] - small.matrices[:, None]).abs().sum(-1).max() / 2)),
    )


def _within(matrices: Tensor, kept: Tensor) -> Tensor:
    return matrices[:, kept][:, :, kept]


def _reachable(pa: PA, leak: float) -> tuple[Tensor, float]:
    """States to keep, in order, and the most that flows out of them in one step: the fewest that one finds greedily."""
    outside = torch.ones(pa.num_states, dtype=torch.bool, device=pa.output.device)
    outside[pa.initial.argmax()] = False
    while True:
        rows = torch.cat([pa.initial[None], pa.matrices[:, ~outside].flatten(0, 1)]) * outside
        leaked = float(rows.sum(-1).max())
        if leaked <= leak:
            return (~outside).nonzero()[:, 0], leaked
        outside[rows.max(0).values.argmax()] = False


def _visits(initial: Tensor, mean: Tensor) -> Tensor:
    """How often each state is visited by random strings that stop with probability 0.1 after each symbol."""
    system = torch.eye(len(mean), dtype=mean.dtype, device=mean.device) - 0.9 * mean.T
    visits: Tensor = torch.linalg.solve(system, initial)
    return visits.clamp(min=1e-12)


def _split(matrices: Tensor, output: Tensor, tolerance: float) -> Tensor:
    """Group number of each state; numbers follow the states."""
    group = torch.zeros(len(output), dtype=torch.int64, device=output.device)
    while True:
        mass = (matrices @ F.one_hot(group).to(output.dtype)).transpose(0, 1)  # (states, symbols, groups)
        leaders: list[int] = []
        refined = torch.empty_like(group)
        for state in range(len(output)):
            for number, leader in enumerate(leaders):
                if (
                    group[state] == group[leader]
                    and (output[state] - output[leader]).abs() <= tolerance / 2
                    and ((mass[state] - mass[leader]).abs().sum(-1) / 2).max() <= tolerance / 2
                ):
                    refined[state] = number
                    break
            else:
                refined[state] = len(leaders)
                leaders.append(state)
        if len(leaders) == int(group.max()) + 1:
            return refined
        group = refined
