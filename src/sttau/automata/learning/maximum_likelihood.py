"""Probabilistic automata of stochastic languages by maximum likelihood, without a network.

The probabilities of a PA are softmax functions of free parameters, the likelihood of all labels is computed exactly on
the tree of prefixes, and L-BFGS maximizes it in float64 from many starts: random ones, and changes of the best so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sttau.automata.learning.prefix_tree import PrefixTree, string_vocabulary
from sttau.automata.value import AutomatonLike, as_pa
from sttau.checks import as_integer
from sttau.data.dataset import SequenceDataset
from sttau.languages import PA

_SPREAD = 2.0  # standard deviation of the parameters of a random start
_BOUND = 30.0  # parameters stay within, so that a probability of 0 is reached at a finite place


@dataclass(frozen=True)
class LearnedPA:
    """A PA that maximizes the likelihood of labels.

    Attributes:
        pa: The automaton.
        log_likelihood: Log-likelihood of the training labels, in nats.
        criteria: Bayesian information criterion for each number of states that was tried.
        expected: Expected log-likelihood of as many new labels for each number of states that was tried, in nats, by
            Akaike's estimate: the log-likelihood minus the number of parameters.
    """

    pa: PA
    log_likelihood: float
    criteria: dict[int, float]
    expected: dict[int, float]


def learn_pa(
    train: SequenceDataset,
    num_states: int | None = None,
    *,
    frequencies: Tensor | None = None,
    initial: AutomatonLike | None = None,
    largest: int = 5,
    attempts: int = 10,
    iterations: int = 2000,
    seed: int = 0,
) -> LearnedPA:
    """Learn a PA from strings with random labels, by exact maximum likelihood.

    Half of the attempts start at random, half from the best automaton so far with random changes. The number of states,
    if it is not given, is the one with the largest expected likelihood of new labels. The Bayesian information
    criterion, which is reported too, prefers fewer states.

    Args:
        train: Strings with the start token, and a random label for each copy.
        num_states: Number of states; 1, 2, … are tried until the expected likelihood has not grown twice if None.
        frequencies: (sequences, 2) counts of each class, instead of labels.
        initial: Automaton from which another attempt starts, if it has this number of states: for instance one that was
            extracted from a network.
        largest: Largest number of states that is tried.
        attempts: Number of attempts.
        iterations: Largest number of iterations of L-BFGS per attempt.
        seed: Seed of all randomness.

    Example:
        >>> from sttau.automata import distance, stochastic
        >>> from sttau.data import load
        >>> learned = learn_pa(load("stochastic1", "train"), 2, attempts=2)
        >>> max(distance(learned.pa, stochastic(1), length=12).sup_by_length[1:]) < 0.05
        True
    """
    for name, number in (("attempts", attempts), ("iterations", iterations), ("largest", largest)):
        as_integer(name, number, 1)
    tree = PrefixTree(train, frequencies)
    vocabulary = string_vocabulary(train)
    alphabet = tuple(symbol for token, symbol in enumerate(vocabulary) if token != tree.start)
    start = None if initial is None else as_pa(initial)
    if num_states is not None:
        largest = as_integer("num_states", num_states, 1)
    fits: dict[int, tuple[PA, float]] = {}
    criteria: dict[int, float] = {}
    expected: dict[int, float] = {}
    for size in range(1, largest + 1) if num_states is None else (largest,):
        fits[size] = _maximize(tree, size, alphabet, start, attempts, iterations, seed)
        parameters = len(alphabet) * size * (size - 1) + 2 * size - 1
        criteria[size] = parameters * math.log(float(tree.counts.sum())) - 2 * fits[size][1]
        expected[size] = fits[size][1] - parameters
        if size > 2 and size - 2 in expected and max(expected[size], expected[size - 1]) <= expected[size - 2]:
            break
    best = max(expected, key=lambda size: expected[size])
    return LearnedPA(*fits[best], criteria, expected)


def _maximize(
    tree: PrefixTree,
    states: int,
    alphabet: tuple[str, ...],
    start: PA | None,
    attempts: int,
    iterations: int,
    seed: int,
) -> tuple[PA, float]:
    """The best of several attempts."""
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    problem = _Problem(tree.double(), states, alphabet)
    source = np.random.default_rng([seed, states])
    best: tuple[float, NDArray[np.float64]] = (math.inf, np.zeros(problem.size))
    given = start is not None and start.num_states == states and start.alphabet == alphabet
    for attempt in range(-1 if given else 0, attempts if states > 1 else 1):
        if attempt < 0:
            assert start is not None
            begin = problem.parameters(start)
        elif attempt % 2 == 0:
            begin = source.normal(0, _SPREAD, problem.size)
        else:
            begin = best[1].clip(-6, 6) + source.normal(0, 1, problem.size)
        with threadpool_limits(1, "blas"):  # threads that wait for matrices this small cost five times the work
            found = minimize(
                problem.evaluate,
                begin,
                jac=True,
                method="L-BFGS-B",
                bounds=[(-_BOUND, _BOUND)] * problem.size,
                options={"maxiter": iterations, "maxfun": 3 * iterations, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-9},
            )
        if found.fun < best[0]:
            best = float(found.fun), np.asarray(found.x)
    pa = problem.automaton(best[1])
    return pa, _log_likelihood(pa, tree)


class _Problem:
    """The mean negative log-likelihood of labels as a function of free parameters."""

    def __init__(self, tree: PrefixTree, states: int, alphabet: tuple[str, ...]) -> None:
        self.tree, self.k, self.alphabet = tree, states, alphabet
        self.size = states + len(alphabet) * states**2 + states

    def split(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Initial distribution, matrices and acceptance probabilities."""
        k, symbols = self.k, len(self.alphabet)
        first, moves, output = parameters.split([k, symbols * k * k, k])
        return first.softmax(-1), moves.view(symbols, k, k).softmax(-1), output.sigmoid()

    def evaluate(self, parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the loss and its gradient."""
        free = torch.from_numpy(parameters).requires_grad_()
        loss = -_labels_likelihood(self.tree, *self.split(free)) / self.tree.counts.sum()
        (gradient,) = torch.autograd.grad(loss, free)
        return float(loss.detach()), gradient.numpy()

    def automaton(self, parameters: NDArray[np.float64]) -> PA:
        """Return the PA of parameters."""
        with torch.no_grad():
            return PA(*self.split(torch.from_numpy(parameters)), self.alphabet)

    def parameters(self, pa: PA) -> NDArray[np.float64]:
        """Return parameters of a PA, with probabilities of at least 1e-6."""
        output = pa.output.clamp(1e-6, 1 - 1e-6)
        parts = [pa.initial.clamp_min(1e-6).log(), pa.matrices.clamp_min(1e-6).log().flatten(), output.logit()]
        return torch.cat(parts).numpy()


def _labels_likelihood(tree: PrefixTree, initial: Tensor, matrices: Tensor, output: Tensor) -> Tensor:
    """Log-likelihood of the labels on a tree."""
    tokens = sorted({symbol for level in tree.levels for symbol, _ in level})
    assert all(token != tree.start for token in tokens)
    states = initial[None]
    levels = [states]
    for level in tree.levels:
        parts = [states[parents] @ matrices[symbol - (symbol > tree.start)] for symbol, parents in level]
        states = torch.cat(parts)
        levels.append(states)
    accepted = torch.cat(levels) @ output
    tiny = torch.finfo(accepted.dtype).tiny
    chances = torch.stack([1 - accepted, accepted], -1).clamp_min(tiny)
    return (tree.counts * chances.log()).sum()


def _log_likelihood(pa: PA, tree: PrefixTree) -> float:
    with torch.no_grad():
        return float(_labels_likelihood(tree.double(), pa.initial, pa.matrices, pa.output))
