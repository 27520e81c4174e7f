"""Learning of stochastic languages by maximum likelihood."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple, cast, get_args

import torch
from torch import Tensor, nn

from sttau.automata.learning.folds import fold_counts
from sttau.automata.learning.maximum_likelihood import Criterion
from sttau.automata.learning.network import new_network, tree_update
from sttau.automata.learning.prefix_tree import PrefixTree, string_vocabulary
from sttau.automata.starts import run_starts
from sttau.checks import as_integer
from sttau.data.dataset import SequenceDataset
from sttau.models import Head, SequenceClassifier
from sttau.seeds import derive_seed
from sttau.training import Update

#: Called with every update and the model.
Callback = Callable[[Update, SequenceClassifier], None]

_KEPT = 2  # candidates from which L-BFGS continues


@dataclass(frozen=True)
class LearnedStochastic:
    """A network trained on a stochastic language, and the number of states it uses.

    Attributes:
        model: Network in eval mode, with the vocabulary of its data.
        log: Updates of the best attempt before L-BFGS: loss and τ.
        loss: Mean negative log-likelihood of the training labels, in nats.
        distinct: Number of distinct states; the other rows of S are copies of them.
        criteria: Bayesian information criterion for each number of distinct states that was tried.
        expected: Expected log-likelihood of as many new labels, in nats, by Akaike's estimate, for each of them.
        held_out: Log-likelihood of all labels, in nats, each under the network that was trained without its fifth of
            the labels, for each of them; empty unless it is the criterion.
    """

    model: SequenceClassifier
    log: list[Update]
    loss: float
    distinct: int
    criteria: dict[int, float]
    expected: dict[int, float]
    held_out: dict[int, float]


def learn_stochastic(
    train: SequenceDataset,
    *,
    num_states: int = 4,
    frequencies: Tensor | None = None,
    distinct: int | None = None,
    hidden_size: int = 32,
    embedding_size: int = 16,
    head: Head = "dense",
    learning_rate: float = 0.02,
    updates: int = 500,
    iterations: int = 1000,
    attempts: int = 5,
    criterion: Criterion = "bic",
    workers: int = 1,
    seed: int = 0,
    callbacks: Callback | Iterable[Callback] = (),
) -> LearnedStochastic:
    """Train a GRU-form network on strings with random labels, by exact maximum likelihood.

    Adam first weights all lengths of strings equally, because the few short strings determine the initial distribution;
    then L-BFGS maximizes the likelihood in float64. More states than the language has would fit the noise of the
    labels, so rows of S are tied in groups, and the number of distinct rows is the best one by a criterion: 2, 3, … are
    tried until it gets worse. Only the training labels are used.

    Args:
        train: Strings with the start token, and a random label for each copy.
        num_states: Number of states k.
        frequencies: (sequences, 2) counts or probabilities of each class, instead of labels.
        distinct: Number of distinct rows of S; chosen by the criterion if None.
        hidden_size: Hidden size d.
        embedding_size: Size of the embedding.
        head: ``dense``, or ``halves`` (the paper's Algorithm 2): each state accepts or rejects, so that edges can be
            interpreted one by one. Tied rows then have equal labels, and all ways to share them are tried.
        learning_rate: Learning rate of Adam.
        updates: Updates of Adam per attempt.
        iterations: Largest number of iterations of L-BFGS per attempt.
        attempts: Attempts per number of distinct states. L-BFGS continues from the two with the largest likelihood
            after Adam, and the better one is returned.
        criterion: What chooses the number of distinct rows: ``bic``, ``aic`` or ``held-out``, as in :func:`learn_pa`.
        workers: Number of processes that make attempts at the same time; the result does not depend on it.
        seed: Seed of all randomness.
        callbacks: Functions called with the update and the model; they need one worker.

    Example:
        >>> from sttau.data import load
        >>> from sttau.automata import extract_pa
        >>> learned = learn_stochastic(load("stochastic1", "train"), distinct=2, attempts=1, updates=200)
        >>> extracted = extract_pa(learned.model, tolerance=1e-4)
        >>> extracted.pa.num_states, bool((extracted.pa.probability(["1"]) - 0.8).abs() < 0.02)
        (2, True)
    """
    for name, value in (
        ("updates", updates),
        ("attempts", attempts),
        ("iterations", iterations),
        ("workers", workers),
    ):
        as_integer(name, value, 1)
    as_integer("num_states", num_states, 2)
    if distinct is not None and not 2 <= distinct <= num_states:
        raise ValueError(f"distinct must be from 2 to num_states = {num_states}, got {distinct}")
    if criterion not in get_args(Criterion):
        raise ValueError(f"criterion must be one of {', '.join(map(repr, get_args(Criterion)))}, got {criterion!r}")
    callbacks = (callbacks,) if callable(callbacks) else tuple(callbacks)
    if callbacks and workers > 1:
        raise ValueError("callbacks cannot be called from other processes: leave out workers, or the callbacks")
    tree = PrefixTree(train, frequencies)
    folds = fold_counts(tree, seed) if criterion == "held-out" else []
    labels = float(tree.counts.sum())
    symbols = len(string_vocabulary(train)) - 1
    best: LearnedStochastic | None = None
    criteria: dict[int, float] = {}
    expected: dict[int, float] = {}
    held_out: dict[int, float] = {}
    for size in range(2, num_states + 1) if distinct is None else (distinct,):
        options = (train, num_states, size, hidden_size, embedding_size, head, attempts, seed)
        rates = (learning_rate, updates, iterations, workers)
        found = _maximize(tree, options, rates, callbacks)
        parameters = symbols * size * (size - 1) + (size - 1) + (size if head == "dense" else 0)
        criteria[size] = 2 * labels * found.loss + parameters * math.log(max(labels, 2.0))
        expected[size] = -labels * found.loss - parameters
        if folds:
            held_out[size] = 0.0
            for rest, other in folds:
                fitted = _maximize(rest, options, rates, ())
                with torch.no_grad():
                    held_out[size] -= float(other.loss(fitted.model) * other.counts.sum())
        scores = held_out or (expected if criterion == "aic" else {key: -value for key, value in criteria.items()})
        if best is not None and scores[size] <= scores[best.distinct]:
            break
        kept = found.model.float().eval()
        best = LearnedStochastic(kept, found.log, found.loss, size, criteria, expected, held_out)
    assert best is not None
    return best


class _Fit(NamedTuple):
    """A network with tied rows, and the unweighted loss."""

    loss: float
    log: list[Update]
    model: SequenceClassifier
    group: Tensor


def _maximize(
    tree: PrefixTree,
    options: tuple[SequenceDataset, int, int, int, int, Head, int, int],
    rates: tuple[float, int, int, int],
    callbacks: Sequence[Callback],
) -> _Fit:
    """The best of several attempts with one number of distinct rows."""
    train, num_states, size, hidden_size, embedding_size, head, attempts, seed = options
    learning_rate, updates, iterations, workers = rates
    starts = []
    for attempt, group in product(range(attempts), _groupings(num_states, size, head)):
        own = derive_seed(seed, "start", size, attempt)
        model = new_network(train, num_states, hidden_size, embedding_size, "exact", head, own)
        reports = [partial(_report, callback, model) for callback in callbacks]
        starts.append((model, tree, group, learning_rate, updates, reports))
    candidates = run_starts(_train_with_adam, starts, workers)
    candidates = sorted(candidates, key=lambda candidate: candidate.loss)[:_KEPT]
    fits = run_starts(_train_with_lbfgs, [(found, tree, iterations) for found in candidates], workers)
    return min(fits, key=lambda fit: fit.loss)


def _groupings(num_states: int, size: int, head: Head) -> list[Tensor]:
    """Groups of tied rows to try: (k,) group numbers; with fixed labels each group is within one half."""
    if head == "dense":
        return [torch.arange(num_states) * size // num_states]
    half = num_states // 2
    shares = [(rejecting, size - rejecting) for rejecting in range(1, size)]
    return [
        torch.cat([torch.arange(half) * rejecting // half, rejecting + torch.arange(half) * accepting // half])
        for rejecting, accepting in shares
        if max(rejecting, accepting) <= half
    ]


@contextmanager
def _tied(model: SequenceClassifier, group: Tensor) -> Iterator[None]:
    """Tie the rows of S within groups: they start equal, and each gets the mean gradient of its group."""
    states = cast(nn.Parameter, model.layer.states_l0)
    member = nn.functional.one_hot(group).T.double()
    mean = (member / member.sum(-1, keepdim=True))[group]  # (k, k)
    leaders = member.argmax(-1)[group]
    with torch.no_grad():
        states.copy_(states[leaders])
    handle = states.register_hook(lambda gradient: mean.to(gradient) @ gradient)
    try:
        yield
    finally:
        handle.remove()
        with torch.no_grad():
            states.copy_(states[leaders])  # removes rounding errors


def _train_with_adam(
    model: SequenceClassifier,
    tree: PrefixTree,
    group: Tensor,
    learning_rate: float,
    updates: int,
    reports: Sequence[Callable[[Update], None]],
) -> _Fit:
    """Adam with equal weight for all lengths."""
    weighted = tree.weighted_by_length()
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=updates)
    log = []
    with _tied(model, group):
        for number in range(1, updates + 1):
            log.append(tree_update(model, weighted, optimizer, tree.depth, number, updates)[1])
            schedule.step()
            for report in reports:
                report(log[-1])
    with torch.no_grad():
        return _Fit(float(tree.loss(model)), log, model, group)


def _train_with_lbfgs(found: _Fit, tree: PrefixTree, iterations: int) -> _Fit:
    """L-BFGS in float64 to a maximum of the likelihood."""
    model = found.model.double()
    float64_tree = tree.double()
    optimizer = torch.optim.LBFGS(
        model.parameters(),
        max_iter=iterations,
        history_size=50,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-9,
        tolerance_change=1e-10,
    )

    def evaluate() -> float:
        optimizer.zero_grad()
        loss = float64_tree.loss(model)
        loss.backward()
        return float(loss.detach())

    with _tied(model, found.group):
        optimizer.step(evaluate)
    with torch.no_grad():
        return found._replace(loss=float(float64_tree.loss(model)), model=model)


def _report(callback: Callback, model: SequenceClassifier, update: Update) -> None:
    callback(update, model)
