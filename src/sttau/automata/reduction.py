"""Reduction of PAs: states with nearly equal behavior are merged (ordinary lumpability), with a bound on the error."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.automata.value import AutomatonLike, as_pa
from sttau.languages import PA


@dataclass(frozen=True)
class Reduction:
    """A PA whose states stand for groups of states of a larger one, and a bound on the difference of the two.

    Attributes:
        pa: Reduced automaton.
        members: States of the larger automaton that each state stands for.
        left_out: States of the larger automaton that are unreachable, or nearly so.
        leak: η, the largest probability of entering them in one step, or of starting there; 0 if they are unreachable.
        defect: ε, the largest total variation between the moves of a state and those of its group, over symbols.
        output_defect: δ, the largest difference between the output of a state and that of its group.
        contraction: ρ ≤ 1, the largest total variation between two rows of a matrix of the reduced automaton.
    """

    pa: PA
    members: tuple[tuple[int, ...], ...]
    left_out: tuple[int, ...]
    leak: float
    defect: float
    output_defect: float
    contraction: float

    @property
    def automaton(self) -> PA:
        """The reduced automaton."""
        return self.pa

    def bound(self, length: int) -> float:
        """Bound on |p(x) − p'(x)| for every string x of n = ``length`` symbols; never more than n·ε + δ + (n + 1)·η.

        It is ε (1 + ρ + … + ρ^(n−1)) + δ + (n + 1) η. Consider a path that follows the larger automaton up to some step
        and the reduced one from there on. Moving that step by one changes the probability by at most ε times the range
        of the remaining outputs, which each symbol contracts by ρ. A path that enters a state that was left out may
        end anywhere.
        """
        if length < 0:
            raise ValueError(f"length must not be negative, got {length}")
        rho = self.contraction
        steps = length if rho >= 1 else (1 - rho**length) / (1 - rho)
        return min(1.0, self.defect * steps + self.output_defect + (length + 1) * self.leak)


def reduce(automaton: AutomatonLike, tolerance: float = 1e-9, *, leak: float = 0.0) -> Reduction:
    """Merge the states of a PA that have nearly the same output and, for every symbol, move to the same groups.

    Unreachable states are left out. Groups start as coarse as outputs allow and are split until no two members of a
    group differ by more than the tolerance, in output or in total variation of the moves to groups. The row of a group
    is the mean of its members', weighted by the visits of random strings.

    Args:
        automaton: PA, or an automaton that is converted to one.
        tolerance: Upper bound of both defects; the result has the actual defects and the bound on the error.
        leak: Largest probability per step of entering the states that are left out, all of them together. The
            transition probabilities of a network are never 0, so without a leak all of its states are kept.

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
    pa = as_pa(automaton)
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
    """A small set of states to keep, found greedily, and the largest probability of leaving it in one step."""
    outside = torch.ones(pa.num_states, dtype=torch.bool, device=pa.output.device)
    outside[pa.initial.argmax()] = False
    while True:
        rows = torch.cat([pa.initial[None], pa.matrices[:, ~outside].flatten(0, 1)]) * outside
        leaked = float(rows.sum(-1).max())
        if leaked <= leak:
            return (~outside).nonzero()[:, 0], leaked
        outside[rows.max(0).values.argmax()] = False


def _visits(initial: Tensor, mean: Tensor) -> Tensor:
    """Expected visits of each state by random strings that end with probability 0.1 after each symbol."""
    system = torch.eye(len(mean), dtype=mean.dtype, device=mean.device) - 0.9 * mean.T
    visits: Tensor = torch.linalg.solve(system, initial)
    return visits.clamp(min=1e-12)


def _split(matrices: Tensor, output: Tensor, tolerance: float) -> Tensor:
    """Group of each state; groups are numbered in the order of the states."""
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
