"""Intervals for the moves of a PA: the profile likelihood of each.

The interval of a move holds every probability that some PA gives it whose likelihood is not much below the largest: by
at most half the quantile of the χ² distribution with one degree of freedom (1.92 nats for 95 %). The ends are found
directly, as the largest and the smallest probability of the move under that constraint. Where the language does not
determine a move, PAs of equal likelihood differ in it, and its interval is wide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sttau.automata.learning.maximum_likelihood import (
    Problem,
    alphabet_of,
    log_likelihood,
    maximize_from,
)
from sttau.automata.learning.prefix_tree import PrefixTree
from sttau.automata.starts import run_starts
from sttau.automata.value import AutomatonLike, as_pa
from sttau.checks import as_integer, check_level
from sttau.data.dataset import SequenceDataset
from sttau.languages import PA

_SLACK = 1e-3  # accepted violation of the constraint, in nats
_FURTHER = 1e-4  # difference of probabilities from which an end is searched again


@dataclass(frozen=True, eq=False)
class MoveIntervals:
    """A PA of maximum likelihood with an interval for each move.

    Attributes:
        pa: The PA at the maximum of the likelihood.
        lower: (symbols, k, k) lower ends.
        upper: (symbols, k, k) upper ends.
        level: Confidence level.
        log_likelihood: Log-likelihood of the labels, in nats.
    """

    pa: PA
    lower: Tensor
    upper: Tensor
    level: float
    log_likelihood: float

    @property
    def automaton(self) -> PA:
        """The PA."""
        return self.pa

    def rows(self) -> list[tuple[int, str, int, float, float, float]]:
        """Return state, symbol, target, probability and both ends for each move."""
        parts = [part.tolist() for part in (self.pa.matrices, self.lower, self.upper)]
        return [
            (state, symbol, target, parts[0][a][state][target], parts[1][a][state][target], parts[2][a][state][target])
            for state in range(self.pa.num_states)
            for a, symbol in enumerate(self.pa.alphabet)
            for target in range(self.pa.num_states)
        ]

    def __str__(self) -> str:
        return "\n".join(
            f"{state} {symbol} → {target}  {p:.3f}  [{low:.3f}, {high:.3f}]"
            for state, symbol, target, p, low, high in self.rows()
        )


def move_intervals(
    automaton: AutomatonLike,
    train: SequenceDataset,
    *,
    frequencies: Tensor | None = None,
    level: float = 0.95,
    iterations: int = 2000,
    workers: int = 1,
) -> MoveIntervals:
    """Return an interval for the probability of each move of a PA, by its profile likelihood.

    The likelihood is first maximized from the given PA. States keep their numbers.

    Args:
        automaton: PA near the maximum of the likelihood, such as one of ``learn_pa`` or ``extract_pa``.
        train: Strings with the start token, and a random label for each copy.
        frequencies: (sequences, 2) counts of each class, instead of labels.
        level: Confidence level of each interval.
        iterations: Largest number of iterations for the maximum and for each end.
        workers: Number of processes that compute ends at the same time; the result does not depend on it.

    Example:
        >>> from sttau.automata import learn_pa, stochastic
        >>> from sttau.data import load
        >>> train = load("stochastic1", "train")
        >>> found = move_intervals(learn_pa(train, 2, attempts=2).pa, train)
        >>> bool((found.lower <= found.pa.matrices).all() and (found.pa.matrices <= found.upper).all())
        True
    """
    from scipy.stats import chi2

    check_level("level", level, 0.95)
    as_integer("iterations", iterations, 1)
    as_integer("workers", workers, 1)
    tree = PrefixTree(train, frequencies).double()
    start, alphabet = as_pa(automaton), alphabet_of(train, tree)
    if start.alphabet != alphabet:
        raise ValueError(f"the PA is over {', '.join(start.alphabet)}, but the strings over {', '.join(alphabet)}")
    problem = Problem(tree, start.num_states, alphabet)
    loss, peak = run_starts(maximize_from, [(problem, problem.parameters(start), iterations)])[0]
    labels = float(tree.counts.sum())
    most = loss + float(chi2.ppf(level, 1)) / 2 / labels
    pa = problem.automaton(peak)
    lower, upper = pa.matrices.clone(), pa.matrices.clone()
    places = list(np.ndindex(*pa.matrices.shape)) if problem.k > 1 else []
    peak_values = problem.values(peak)
    starts = [(problem, peak_values, most, labels, place, sign, iterations) for place in places for sign in (-1, 1)]
    reached = [peak_values, *run_starts(end_of_interval, starts, workers)]
    again = []  # where another end's PA leaves the interval, the search goes on from there
    for number, (*_, place, sign, _) in enumerate(starts, 1):
        here = np.array([sign * point[problem.number_of(place)] for point in reached])
        if here.max() > here[number] + _FURTHER:
            again.append((problem, reached[int(here.argmax())], most, labels, place, sign, iterations))
    reached += run_starts(end_of_interval, again, workers)
    points = np.stack(reached)[:, problem.k : -problem.k].reshape(-1, *pa.matrices.shape)
    lower, upper = torch.from_numpy(points.min(0).clip(0, 1)), torch.from_numpy(points.max(0).clip(0, 1))
    return MoveIntervals(pa, lower, upper, level, log_likelihood(pa, tree))


def end_of_interval(
    problem: Problem,
    begin: NDArray[np.float64],
    most: float,
    labels: float,
    place: tuple[int, int, int],
    sign: int,
    iterations: int,
) -> NDArray[np.float64]:
    """Return the probabilities of a PA whose loss is at most ``most``, with the largest (sign 1) or smallest (−1) move.

    Variables are the probabilities themselves, in which rows sum to 1. The search begins at such a PA, and returns that
    if it fails.
    """
    from scipy.optimize import minimize

    rows = problem.rows()
    direction = np.zeros(len(begin))
    direction[problem.number_of(place)] = -sign
    found = minimize(
        lambda point: float(direction @ point),
        begin,
        jac=lambda point: direction,
        method="SLSQP",
        bounds=[(0, 1)] * len(begin),
        constraints=[
            {"type": "eq", "fun": lambda point: rows @ point - 1, "jac": lambda point: rows},
            {
                "type": "ineq",
                "fun": lambda point: labels * (most - problem.evaluate_values(point)[0]),
                "jac": lambda point: -labels * problem.evaluate_values(point)[1],
            },
        ],
        options={"maxiter": iterations, "ftol": 1e-6},
    )
    excess = labels * (problem.evaluate_values(found.x)[0] - most)
    if not excess <= _SLACK or np.abs(rows @ found.x - 1).max() > _SLACK:
        return begin
    return np.asarray(found.x)
