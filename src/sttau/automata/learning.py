"""Training for extraction: networks that become an automaton, reliably and in seconds.

A GRU-form network over a finite alphabet is a table of k × k matrices (docs/mathematics.md, §4), so the law of the
state after a prefix is the law after a shorter prefix times one matrix. All training strings together are a tree of
prefixes: each prefix is computed once, whatever the number of strings and copies that share it, and an update on the
whole training set takes milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import cast

import torch
from torch import Tensor, nn

from sttau.automata.extraction import extract_dfa
from sttau.automata.languages import START
from sttau.data.dataset import SequenceDataset
from sttau.inference import predict
from sttau.layers import LayerMode, STTauGRU
from sttau.models import Head, SequenceClassifier
from sttau.seeds import derive_seed
from sttau.training import Update, fit

_FIRST_LENGTH = 2  # symbols of the strings a growing attempt begins with
_GROWS_BELOW = 0.05  # loss at which longer strings are taken in
_PATIENCE = 150  # updates without progress after which an attempt is given up
_FOLLOWED = 2  # starts of the search for the largest likelihood that are followed to the top
_IN_A_ROW = 20  # batches below the goal, where an update sees a batch only


@dataclass(frozen=True)
class Learned:
    """A network that was trained to be read as an automaton, and how that went.

    Attributes:
        model: the network, in eval mode, with the vocabulary of its data.
        log: the updates of the attempt that was kept: loss and τ.
        attempts: how many starts there were.
        loss: mean negative log-likelihood of the training labels, in nats.
        wrong: how many training and validation strings network or extracted automaton label otherwise than the data.
        reached: whether the loss came down to the goal and nothing is wrong. It says nothing about the true language.
    """

    model: SequenceClassifier
    log: list[Update]
    attempts: int
    loss: float
    wrong: int
    reached: bool


@dataclass(frozen=True)
class LearnedStochastic:
    """A network that was trained on a stochastic language, and how many of its states that took.

    Attributes:
        model: the network, in eval mode, with the vocabulary of its data.
        log: the updates of the attempt that was kept, before the last descent: loss and τ.
        loss: mean negative log-likelihood of the training labels, in nats.
        distinct: how many different states it has; the other rows of S are copies of them.
        criteria: the Bayesian information criterion for each number of different states that was tried.
    """

    model: SequenceClassifier
    log: list[Update]
    loss: float
    distinct: int
    criteria: dict[int, float]


class PrefixTree:
    """Labeled strings as the tree of their prefixes, from which their likelihood is computed exactly.

    Args:
        data: token sequences that begin with the start token.
        frequencies: (sequences, classes) takes the place of labels: how often, or how probably, each class was seen.

    Example:
        >>> from sttau.data import load
        >>> tree = PrefixTree(load("stochastic2", "train"))
        >>> tree.counts.shape, int(tree.counts.sum())  # all strings to length 10, with ten labels each
        (torch.Size([2047, 2]), 20460)
    """

    def __init__(self, data: SequenceDataset, frequencies: Tensor | None = None) -> None:
        size = len(_vocabulary(data))
        classes = len(data.class_names)
        tokens, lengths = data.inputs, data.lengths
        self.start = int(tokens[0, 0])
        if frequencies is None:
            frequencies = nn.functional.one_hot(data.labels, classes).float()
        elif frequencies.shape != (len(data), classes):
            raise ValueError(f"frequencies must have shape {(len(data), classes)}, got {tuple(frequencies.shape)}")
        node = torch.zeros(len(data), dtype=torch.int64)  # where each string stands in the level
        width = 1
        self.levels: list[list[tuple[int, Tensor]]] = []  # symbol, and the parents of the nodes it leads to
        self.ends: list[int] = []  # nodes up to and with each level
        counts = []
        for length in range(1, int(lengths.max()) + 1):
            if length > 1:
                alive = lengths >= length
                keys, place = (tokens[alive, length - 1] * width + node[alive]).unique(return_inverse=True)
                node[alive] = place
                symbols, parents = keys // width, keys % width
                self.levels.append([(v, parents[symbols == v]) for v in range(size) if bool((symbols == v).any())])
                width = len(keys)
            here = lengths == length
            counts.append(torch.zeros(width, classes).index_add_(0, node[here], frequencies[here]))
            self.ends.append(width + (self.ends[-1] if self.ends else 0))
        self.counts = torch.cat(counts)

    def evenly(self) -> PrefixTree:
        """The same tree, in which the strings of each length have the same weight together."""
        counts = self.counts.clone()
        for begin, end in zip([0, *self.ends], self.ends, strict=False):
            counts[begin:end] /= counts[begin:end].sum().clamp_min(torch.finfo(counts.dtype).tiny)
        return self._with(counts)

    def double(self) -> PrefixTree:
        """The same tree, in float64."""
        return self._with(self.counts.double())

    def _with(self, counts: Tensor) -> PrefixTree:
        other = copy(self)
        other.counts = counts
        return other

    @property
    def depth(self) -> int:
        """Symbols of the longest string."""
        return len(self.levels)

    def laws(self, model: SequenceClassifier, depth: int | None = None) -> Tensor:
        """Return the law of the state after each prefix of at most ``depth`` symbols: (nodes, k)."""
        assert model.embedding is not None
        vectors = model.embedding.weight
        layer = model.finite_state_layer
        matrices = layer.transition_matrices(vectors)
        law = layer.first_distribution(vectors[[self.start]])
        laws = [law]
        for level in self.levels[:depth]:
            law = torch.cat([law[parents] @ matrices[symbol] for symbol, parents in level])
            laws.append(law)
        return torch.cat(laws)

    def loss(self, model: SequenceClassifier, depth: int | None = None) -> Tensor:
        """Mean negative log-likelihood of the labels of all strings of at most ``depth`` symbols, in nats.

        Example:
            >>> from sttau import STTauGRU
            >>> from sttau.data import load
            >>> data = load("tomita1", "train")
            >>> model = SequenceClassifier(STTauGRU(4, 8, num_states=3, mode="exact"), 2, nn.Embedding(3, 4))
            >>> loss = PrefixTree(data).loss(model)
            >>> bool(loss.isclose(model.loss(data.inputs, data.labels, data.lengths)))
            True
        """
        end = self.ends[-1 if depth is None else min(depth, self.depth)]
        chances = self.laws(model, depth) @ model.state_logits().exp()
        logarithms = chances.clamp_min(torch.finfo(chances.dtype).tiny).log()
        return -(self.counts[:end] * logarithms).sum() / self.counts[:end].sum()


def learn(
    train: SequenceDataset,
    validation: SequenceDataset | None = None,
    *,
    num_states: int = 10,
    hidden_size: int = 32,
    embedding_size: int = 16,
    mode: LayerMode = "exact",
    head: Head = "dense",
    batch_size: int | None = None,
    learning_rate: float = 0.02,
    updates: int = 2000,
    attempts: int = 40,
    goal: float = 1e-4,
    seed: int = 0,
    callbacks: Callable[[int, Update, SequenceClassifier], None] | None = None,
) -> Learned:
    """Train a GRU-form network on the labeled strings of a regular language until it can be read as an automaton.

    Exact training sees the whole training set at every update, as a tree of prefixes. It either falls into place
    within a few hundred updates or not at all, so it starts anew where nothing moves any more. Every second attempt
    begins with the shortest strings and takes in longer ones as it masters them: languages whose strings look alike
    until several symbols are counted, such as Tomita 5, need it. An attempt counts when the loss has reached the goal
    and both the network and the automaton read from it label all training and validation strings rightly. The true
    language is never asked.

    Args:
        train: strings with the start token, and their labels.
        validation: strings that an attempt must label rightly too; longer ones are best.
        num_states: k.
        hidden_size: d.
        embedding_size: numbers a symbol becomes.
        mode: ``exact``; ``soft`` and ``hard`` train on batches of samples.
        head: ``dense``, or ``halves`` (the paper's Algorithm 2).
        batch_size: strings an update; None is all of them, for exact training, and 64 else.
        learning_rate: of Adam.
        updates: of one attempt, at most.
        attempts: starts, at most. The one with the smallest loss is returned where none reaches the goal.
        goal: training loss, in nats a string, at which training ends.
        seed: all randomness follows from it.
        callbacks: called with the number of the attempt, from 1, the update and the model as it stands.

    Example:
        >>> from sttau.automata import extract_dfa, tomita
        >>> from sttau.data import load
        >>> learned = learn(load("tomita1", "train"), load("tomita1", "validation"))
        >>> learned.reached, extract_dfa(learned.model, learned.model.vocabulary).equivalent_to(tomita(1))
        (True, Equivalence(equal=True, counterexample=None))
    """
    for name, value in (("updates", updates), ("attempts", attempts), ("hidden_size", hidden_size)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if not goal > 0:
        raise ValueError(f"goal must be positive, got {goal}")
    if mode not in ("exact", "soft", "hard"):
        raise ValueError(f"mode must be 'exact', 'soft' or 'hard', got {mode!r}")
    tree = PrefixTree(train)
    if bool((tree.counts > 0).all(-1).any()):
        raise ValueError("train has strings with several labels; a stochastic language is learned by learn_stochastic")
    best: Learned | None = None
    for attempt in range(attempts):
        model = _network(
            train, num_states, hidden_size, embedding_size, mode, head, derive_seed(seed, "start", attempt)
        )

        def watch(update: Update, number: int = attempt + 1, model: SequenceClassifier = model) -> None:
            if callbacks is not None:
                callbacks(number, update, model)

        if mode == "exact" and batch_size is None:
            log = _descend(model, tree, updates, learning_rate, goal, attempt % 2 == 1, watch)
            with torch.no_grad():
                loss = float(tree.loss(model))
        else:
            log = _fit(model, train, updates, batch_size or 64, learning_rate, goal, seed + attempt, watch)
            loss = sum(update.loss for update in log[-_IN_A_ROW:]) / len(log[-_IN_A_ROW:])
        model.eval()
        wrong = sum(_wrong(model, data) for data in (train, validation) if data is not None)
        reached = loss <= goal and wrong == 0
        if best is None or (reached, -loss) > (best.reached, -best.loss):
            best = Learned(model, log, attempt + 1, loss, wrong, reached)
        if reached:
            break
    assert best is not None
    return best


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
    seed: int = 0,
    callbacks: Callable[[Update, SequenceClassifier], None] | None = None,
) -> LearnedStochastic:
    """Train a GRU-form network on strings whose labels are drawn, by maximum likelihood of the exact law.

    Adam first sees all lengths of strings with equal weight, for the few short strings show where a run begins; then
    L-BFGS follows the likelihood itself to its top, in float64. More states than the language has would be spent on
    the luck of the draw, so rows of S are kept equal, in groups that move as one, and the number of different rows is
    the one with the best Bayesian information criterion: 2, 3, … are tried until it gets worse. Nothing but the
    training labels is looked at.

    Args:
        train: strings with the start token, and a label drawn for each copy.
        num_states: k.
        frequencies: (sequences, 2) in place of labels: how often each class was seen, or its probability.
        distinct: how many rows of S are different; chosen by the criterion if None.
        hidden_size: d.
        embedding_size: numbers a symbol becomes.
        head: ``dense``, or ``halves`` (the paper's Algorithm 2): states accept or they do not, so that edges mean
            something by themselves. Equal rows then have equal labels, and all ways to share them are tried.
        learning_rate: of Adam.
        updates: of Adam, for one attempt.
        iterations: of L-BFGS, for one attempt, at most.
        attempts: starts for each number of different states. The two most likely after Adam are followed to the top,
            and the better of these counts.
        seed: all randomness follows from it.
        callbacks: called with the update and the model as it stands.

    Example:
        >>> from sttau.data import load
        >>> from sttau.automata import extract_pa
        >>> learned = learn_stochastic(load("stochastic1", "train"), distinct=2, attempts=1, updates=200)
        >>> extracted = extract_pa(learned.model, tolerance=1e-4)
        >>> extracted.pa.num_states, bool((extracted.pa.probability(["1"]) - 0.8).abs() < 0.02)
        (2, True)
    """
    for name, value in (("updates", updates), ("attempts", attempts), ("iterations", iterations)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if distinct is not None and not 2 <= distinct <= num_states:
        raise ValueError(f"distinct must be from 2 to num_states = {num_states}, got {distinct}")
    tree = PrefixTree(train, frequencies)
    labels = float(tree.counts.sum())
    symbols = len(_vocabulary(train)) - 1
    best: LearnedStochastic | None = None
    criteria: dict[int, float] = {}
    for size in range(2, num_states + 1) if distinct is None else (distinct,):
        starts = []
        for attempt, group in product(range(attempts), _groupings(num_states, size, head)):
            own = derive_seed(seed, "start", size, attempt)
            model = _network(train, num_states, hidden_size, embedding_size, "exact", head, own)
            watch = None if callbacks is None else partial(_report, callbacks, model)
            starts.append((*_approach(model, tree, group, learning_rate, updates, watch), model, group))
        starts = sorted(starts, key=lambda start: start[0])[:_FOLLOWED]
        tops = [(_climb(model, tree, group, iterations), log, model) for _, log, model, group in starts]
        loss, log, model = min(tops, key=lambda top: top[0])
        parameters = symbols * size * (size - 1) + (size - 1) + (size if head == "dense" else 0)
        criteria[size] = 2 * labels * loss + parameters * math.log(max(labels, 2.0))
        if best is not None and criteria[size] >= criteria[best.distinct]:
            break
        best = LearnedStochastic(model.float().eval(), log, loss, size, criteria)
    assert best is not None
    return best


def _groupings(num_states: int, size: int, head: Head) -> list[Tensor]:
    """The groups of rows to try: (k,) group numbers; with fixed labels each group stays within its half."""
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
    """Keep rows of S equal within groups: they begin equal, and each moves as the mean of its group."""
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
            states.copy_(states[leaders])  # rounding aside


def _approach(
    model: SequenceClassifier,
    tree: PrefixTree,
    group: Tensor,
    learning_rate: float,
    updates: int,
    watch: Callable[[Update], None] | None,
) -> tuple[float, list[Update]]:
    """Adam on all lengths alike: the loss on the strings as they are, and the log."""
    even = tree.evenly()
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=updates)
    log = []
    with _tied(model, group):
        for number in range(1, updates + 1):
            log.append(_step(model, even, optimizer, tree.depth, number, updates)[1])
            schedule.step()
            if watch is not None:
                watch(log[-1])
    with torch.no_grad():
        return float(tree.loss(model)), log


def _climb(model: SequenceClassifier, tree: PrefixTree, group: Tensor, iterations: int) -> float:
    """L-BFGS to the top of the likelihood, in float64: the loss there."""
    model.double()
    exactly = tree.double()
    search = torch.optim.LBFGS(
        model.parameters(),
        max_iter=iterations,
        history_size=50,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-9,
        tolerance_change=1e-10,
    )

    def evaluate() -> float:
        search.zero_grad()
        loss = exactly.loss(model)
        loss.backward()
        return float(loss.detach())

    with _tied(model, group):
        search.step(evaluate)
    with torch.no_grad():
        return float(exactly.loss(model))


def _report(callbacks: Callable[[Update, SequenceClassifier], None], model: SequenceClassifier, update: Update) -> None:
    callbacks(update, model)


def _descend(
    model: SequenceClassifier,
    tree: PrefixTree,
    updates: int,
    learning_rate: float,
    goal: float,
    grows: bool,
    watch: Callable[[Update], None],
) -> list[Update]:
    """One attempt on the whole tree, or on its top that grows."""
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    depth = min(_FIRST_LENGTH, tree.depth) if grows else tree.depth
    lowest, stale = math.inf, 0
    log: list[Update] = []
    for number in range(1, updates + 1):
        loss, update = _step(model, tree, optimizer, depth, number, updates)
        log.append(update)
        watch(update)
        if depth < tree.depth and loss < _GROWS_BELOW:
            depth, lowest, stale = depth + 1, math.inf, 0
        elif depth == tree.depth and loss <= goal:
            break
        elif loss < 0.9 * lowest:
            lowest, stale = loss, 0
        else:
            stale += 1
            if stale == _PATIENCE:
                break
    return log


def _step(
    model: SequenceClassifier,
    tree: PrefixTree,
    optimizer: torch.optim.Optimizer,
    depth: int,
    number: int,
    of: int,
) -> tuple[float, Update]:
    loss = tree.loss(model, depth)
    optimizer.zero_grad()
    loss.backward()
    norm = float(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    optimizer.step()
    value = float(loss.detach())
    return value, Update(number, of, value, (float(model.finite_state_layer.temperature.detach()),), gradient_norm=norm)


def _fit(
    model: SequenceClassifier,
    train: SequenceDataset,
    updates: int,
    batch_size: int,
    learning_rate: float,
    goal: float,
    seed: int,
    watch: Callable[[Update], None],
) -> list[Update]:
    """One attempt on batches, until several in a row have reached the goal."""
    good = 0

    def enough(update: Update) -> bool:
        nonlocal good
        good = good + 1 if update.loss <= goal else 0
        watch(update)
        return good >= _IN_A_ROW

    return fit(
        model,
        train,
        updates=updates,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seed=seed,
        callbacks=enough,
    )


def _network(
    data: SequenceDataset, num_states: int, hidden: int, embedded: int, mode: LayerMode, head: Head, seed: int
) -> SequenceClassifier:
    """A new network, whose weights follow from the seed; PyTorch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = STTauGRU(embedded, hidden, num_states, mode=mode)
        model = SequenceClassifier(
            layer, len(data.class_names), nn.Embedding(len(_vocabulary(data)), embedded), head=head
        )
    model.set_metadata(data)
    return model


def _wrong(model: SequenceClassifier, data: SequenceDataset) -> int:
    """Strings that the network, or the automaton it is read as, labels otherwise than the data."""
    said = predict(model, data.inputs, data.lengths).label == data.labels
    read = extract_dfa(model, _vocabulary(data), start=_vocabulary(data)[int(data.inputs[0, 0])])
    agree = read.accepts(data.inputs, data.lengths) == (data.labels == 1)
    return int((~(said & agree)).sum())


def _vocabulary(data: SequenceDataset) -> tuple[str, ...]:
    if data.vocabulary is None or data.inputs.dim() != 2:
        raise ValueError(f"{data.name} must be strings over a vocabulary; automata are learned from symbols")
    if not bool((data.inputs[:, 0] == data.inputs[0, 0]).all()):
        raise ValueError(f"all sequences of {data.name} must begin with one start token, such as {START!r}")
    return data.vocabulary
