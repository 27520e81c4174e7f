"""Probabilistic automata of stochastic languages by maximum likelihood, without a network.

The probabilities of a PA are softmax functions of free parameters, the likelihood of all labels is computed exactly on
the tree of prefixes, and L-BFGS maximizes it in float64 from many starts: the best of random ones after a few
iterations, and changes of the best so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sttau.automata.learning.folds import fold_counts
from sttau.automata.learning.prefix_tree import PrefixTree, string_vocabulary
from sttau.automata.starts import run_starts
from sttau.automata.value import AutomatonLike, as_pa
from sttau.checks import as_integer
from sttau.data.dataset import SequenceDataset
from sttau.languages import PA

_Found = tuple[float, NDArray[np.float64]]  # a loss, and the parameters there

#: What chooses the number of states: Akaike's or the Bayesian criterion, or the likelihood of held-out labels.
Criterion = Literal["aic", "bic", "held-out"]

_SPREAD = 0.5  # standard deviation of the parameters of a random start
_SCREENING = 30  # iterations after which random starts are compared
_TINY = 1e-290  # smaller chances are clipped
_INSIDE = 6.0  # starts are within, where the gradient is not lost
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
        held_out: Log-likelihood of all labels in nats, each under the automaton that was learned without its fifth of
            the labels, for each number of states that was tried; empty unless it is the criterion.
    """

    pa: PA
    log_likelihood: float
    criteria: dict[int, float]
    expected: dict[int, float]
    held_out: dict[int, float]


def learn_pa(
    train: SequenceDataset,
    num_states: int | None = None,
    *,
    frequencies: Tensor | None = None,
    initial: AutomatonLike | None = None,
    largest: int = 5,
    attempts: int = 10,
    iterations: int = 2000,
    criterion: Criterion = "aic",
    workers: int = 1,
    seed: int = 0,
) -> LearnedPA:
    """Learn a PA from strings with random labels, by exact maximum likelihood.

    A quarter of the attempts continue the best of sixteen times as many random starts after thirty iterations. The
    others start from the best so far, in turn with random changes of all parameters and with one state drawn anew. The
    number of states, if it is not given, is the best one by a criterion. Akaike's estimates the likelihood of new
    labels; the Bayesian one prefers fewer states; the likelihood of held-out labels is that of fivefold
    cross-validation, which takes six times as long.

    Args:
        train: Strings with the start token, and a random label for each copy.
        num_states: Number of states; 1, 2, … are tried until the criterion has not improved twice if None.
        frequencies: (sequences, 2) counts of each class, instead of labels.
        initial: Automaton from which another attempt starts, if it has this number of states: for instance one that was
            extracted from a network.
        largest: Largest number of states that is tried.
        attempts: Number of attempts.
        iterations: Largest number of iterations of L-BFGS per attempt.
        criterion: What chooses the number of states: ``aic``, ``bic`` or ``held-out``.
        workers: Number of processes that make attempts at the same time; the result does not depend on it.
        seed: Seed of all randomness.

    Example:
        >>> from sttau.automata import distance, stochastic
        >>> from sttau.data import load
        >>> learned = learn_pa(load("stochastic1", "train"), 2, attempts=2)
        >>> max(distance(learned.pa, stochastic(1), length=12).sup_by_length[1:]) < 0.05
        True
    """
    for name, number in (
        ("attempts", attempts),
        ("iterations", iterations),
        ("largest", largest),
        ("workers", workers),
    ):
        as_integer(name, number, 1)
    if criterion not in get_args(Criterion):
        raise ValueError(f"criterion must be one of {', '.join(map(repr, get_args(Criterion)))}, got {criterion!r}")
    tree = PrefixTree(train, frequencies).double()
    folds = fold_counts(tree, seed) if criterion == "held-out" else []
    alphabet = alphabet_of(train, tree)
    start = None if initial is None else as_pa(initial)
    if num_states is not None:
        largest = as_integer("num_states", num_states, 1)
    fits: dict[int, tuple[PA, float]] = {}
    criteria: dict[int, float] = {}
    expected: dict[int, float] = {}
    held_out: dict[int, float] = {}
    for size in range(1, largest + 1) if num_states is None else (largest,):
        fits[size] = _maximize(tree, size, alphabet, start, attempts, iterations, workers, seed)
        parameters = len(alphabet) * size * (size - 1) + 2 * size - 1
        criteria[size] = parameters * math.log(float(tree.counts.sum())) - 2 * fits[size][1]
        expected[size] = fits[size][1] - parameters
        if folds:
            held_out[size] = sum(
                log_likelihood(_maximize(kept, size, alphabet, start, attempts, iterations, workers, seed)[0], other)
                for kept, other in folds
            )
        scores = held_out or (expected if criterion == "aic" else {size: -value for size, value in criteria.items()})
        if size > 2 and size - 2 in scores and max(scores[size], scores[size - 1]) <= scores[size - 2]:
            break
    best = max(scores, key=lambda size: scores[size])
    return LearnedPA(*fits[best], criteria, expected, held_out)


def alphabet_of(train: SequenceDataset, tree: PrefixTree) -> tuple[str, ...]:
    """Return the symbols of strings, without the start token."""
    return tuple(symbol for token, symbol in enumerate(string_vocabulary(train)) if token != tree.start)


def _maximize(
    tree: PrefixTree,
    states: int,
    alphabet: tuple[str, ...],
    start: PA | None,
    attempts: int,
    iterations: int,
    workers: int,
    seed: int,
) -> tuple[PA, float]:
    """The best of several attempts: from the given automaton and promising random ones, then from the best so far."""
    problem = Problem(tree, states, alphabet)
    source = np.random.default_rng([seed, states])
    if states == 1:
        attempts = 1

    def best_from(begins: list[NDArray[np.float64]], limit: int, number: int) -> list[_Found]:
        found = run_starts(maximize_from, [(problem, begin, limit) for begin in begins], workers)
        return sorted(found, key=lambda pair: pair[0])[:number]  # the first of equals

    # most random starts end in a poor maximum, and a few iterations show it
    screened = [source.normal(0, _SPREAD, problem.size) for _ in range(4 * attempts)]
    kept = (attempts + 3) // 4
    begins = [begin for _, begin in best_from(screened, min(_SCREENING, iterations), kept)]
    if start is not None and start.num_states == states and start.alphabet == alphabet:
        begins.insert(0, problem.parameters(start))
    best = best_from(begins, iterations, 1)
    for left in range(attempts - kept, 0, -2):
        changes = (problem.shaken, problem.with_another_state)[:left]
        begins = [change(best[0][1], source) for change in changes]
        best = sorted([*best, *best_from(begins, iterations, 2)], key=lambda pair: pair[0])[:1]
    pa = problem.automaton(best[0][1])
    return pa, log_likelihood(pa, tree)


def maximize_from(problem: Problem, begin: NDArray[np.float64], iterations: int) -> tuple[float, NDArray[np.float64]]:
    """Return the smallest loss that L-BFGS reaches from some parameters, and the parameters there."""
    from scipy.optimize import minimize

    found = minimize(
        problem.evaluate,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-_BOUND, _BOUND)] * problem.size,
        options={"maxiter": iterations, "maxfun": 3 * iterations, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-9},
    )
    return float(found.fun), np.asarray(found.x)


class Problem:
    """The mean negative log-likelihood of labels as a function of free parameters, or of the probabilities."""

    def __init__(self, tree: PrefixTree, states: int, alphabet: tuple[str, ...]) -> None:
        self.k, self.alphabet = states, alphabet
        self.size = states + len(alphabet) * states**2 + states
        self.counts = tree.counts.double().numpy()
        self.levels = [  # symbol, its nodes' parents in the level above, and the place of the nodes in their level
            [
                (symbol - (symbol > tree.start), parents.numpy(), slice(begin, begin + len(parents)))
                for (symbol, parents), begin in zip(level, _begins(level), strict=True)
            ]
            for level in tree.levels
        ]

    def split(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Initial distribution, matrices and acceptance probabilities."""
        k, symbols = self.k, len(self.alphabet)
        first, moves, output = parameters.split([k, symbols * k * k, k])
        return first.softmax(-1), moves.view(symbols, k, k).softmax(-1), output.sigmoid()

    def evaluate(self, parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the loss and its gradient."""
        values = self.values(parameters)
        loss, slope = self.evaluate_values(values)
        k = self.k
        rows, output = values[:-k].reshape(-1, k), values[-k:]
        gradient = slope[:-k].reshape(-1, k)
        inner = rows * (gradient - (rows * gradient).sum(-1, keepdims=True))  # the derivative of a softmax function
        return loss, np.concatenate([inner.ravel(), slope[-k:] * output * (1 - output)])

    def evaluate_values(self, values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the loss and its gradient as functions of the probabilities themselves: one pass down the tree."""
        k = self.k
        first, moves, output = values[:k], values[k:-k].reshape(-1, k, k), values[-k:]
        states = [first[None]]
        for level in self.levels:
            above = states[-1]
            below = np.empty((level[-1][2].stop, k))
            for symbol, parents, place in level:
                below[place] = above[parents] @ moves[symbol]
            states.append(below)
        accepted = np.concatenate(states) @ output
        chances = np.stack([1 - accepted, accepted], -1).clip(_TINY)
        total = self.counts.sum()
        loss = -float((self.counts * np.log(chances)).sum() / total)
        ratio = np.where(chances > _TINY, self.counts / chances, 0.0)  # the gradient of the clipped value is 0
        slope = (ratio[:, 0] - ratio[:, 1]) / total  # of the loss by the acceptance probability of each node
        slope_of_output = np.concatenate(states).T @ slope
        slope_of_moves = np.zeros_like(moves)
        begin = len(slope)
        upwards = np.zeros_like(states[-1])
        for level, above in zip(reversed(self.levels), reversed(states[:-1]), strict=True):
            begin -= len(upwards)
            upwards += slope[begin : begin + len(upwards), None] * output
            further = np.zeros_like(above)
            for symbol, parents, place in level:
                slope_of_moves[symbol] += above[parents].T @ upwards[place]
                further[parents] += upwards[place] @ moves[symbol].T  # parents of one symbol are distinct
            upwards = further
        upwards += slope[:1, None] * output
        return loss, np.concatenate([upwards[0], slope_of_moves.ravel(), slope_of_output])

    def values(self, parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of parameters: those of the initial states, of the moves and of acceptance."""
        with torch.no_grad():
            return torch.cat([part.flatten() for part in self.split(torch.from_numpy(parameters))]).numpy()

    def shaken(self, parameters: NDArray[np.float64], source: np.random.Generator) -> NDArray[np.float64]:
        """Return parameters with random changes of all."""
        return parameters.clip(-_INSIDE, _INSIDE) + source.normal(0, 1, self.size)

    def with_another_state(self, parameters: NDArray[np.float64], source: np.random.Generator) -> NDArray[np.float64]:
        """Return parameters with one state drawn anew: its moves and acceptance, and changes of the moves to it."""
        k, symbols = self.k, len(self.alphabet)
        changed = parameters.clip(-_INSIDE, _INSIDE)
        state = int(source.integers(k))
        moves, output = changed[k:-k].reshape(symbols, k, k), changed[-k:]  # views
        moves[:, state] = source.normal(0, _SPREAD, (symbols, k))
        moves[:, :, state] += source.normal(0, 1, (symbols, k))
        output[state] = source.normal(0, _SPREAD)
        return changed + source.normal(0, 0.1, self.size)  # equal states would stay equal

    def number_of(self, place: tuple[int, int, int]) -> int:
        """Return the number of a move (symbol, state, target) among the probabilities."""
        return self.k + int(np.ravel_multi_index(place, (len(self.alphabet), self.k, self.k)))

    def rows(self) -> NDArray[np.float64]:
        """Return which probabilities sum to 1: (sums, probabilities)."""
        k, moves = self.k, len(self.alphabet) * self.k
        return np.hstack([np.kron(np.eye(1 + moves), np.ones(k)), np.zeros((1 + moves, k))])

    def automaton(self, parameters: NDArray[np.float64]) -> PA:
        """Return the PA of parameters."""
        with torch.no_grad():
            return PA(*self.split(torch.from_numpy(parameters)), self.alphabet)

    def parameters(self, pa: PA) -> NDArray[np.float64]:
        """Return parameters of a PA, with probabilities of at least 1e-6."""
        output = pa.output.clamp(1e-6, 1 - 1e-6)
        parts = [pa.initial.clamp_min(1e-6).log(), pa.matrices.clamp_min(1e-6).log().flatten(), output.logit()]
        return torch.cat(parts).numpy()


def _begins(level: list[tuple[int, Tensor]]) -> list[int]:
    """Place of the first node of each symbol in its level."""
    return [0, *np.cumsum([len(parents) for _, parents in level])[:-1].tolist()]


def log_likelihood(pa: PA, tree: PrefixTree) -> float:
    """Return the log-likelihood of the labels on a tree."""
    values = torch.cat([pa.initial, pa.matrices.flatten(), pa.output]).double().numpy()
    problem = Problem(tree, pa.num_states, pa.alphabet)
    return -problem.evaluate_values(values)[0] * float(problem.counts.sum())
