"""Training for extraction: networks that become an automaton, reliably and in seconds.

A GRU-form network over a finite alphabet is a table of k × k matrices (docs/mathematics.md, §4), so the law of the state
after a prefix is the law after a shorter prefix times one matrix. All training strings together are a tree of prefixes:
each prefix is computed once, whatever the number of strings and copies that share it, and an update on the whole
training set takes milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sttau.automata.extraction import extract_dfa
from sttau.automata.languages import START
from sttau.data.dataset import SequenceDataset
from sttau.inference import predict
from sttau.layers import LayerMode, STTauGRU
from sttau.models import Head, SequenceClassifier
from sttau.training import Update, fit
from sttau.training.batches import derive_seed

_FIRST_LENGTH = 2  # symbols of the strings a growing attempt begins with
_GROWS_BELOW = 0.05  # loss at which longer strings are taken in
_PATIENCE = 150  # updates without progress after which an attempt is given up
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


class PrefixTree:
    """Labelled strings as the tree of their prefixes, from which their likelihood is computed exactly.

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
        return -(self.counts[:end] * logarithms).sum() / self.counts[:end].sum().clamp_min(1)


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
    on_update: Callable[[int, Update, SequenceClassifier], None] | None = None,
) -> Learned:
    """Train a GRU-form network on the labelled strings of a regular language until it can be read as an automaton.

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
        mode: ``exact``; ``soft`` and ``straight_through`` train on batches of samples.
        head: ``dense``, or ``halves`` (the paper's Algorithm 2).
        batch_size: strings an update; None is all of them, for exact training, and 64 else.
        learning_rate: of Adam.
        updates: of one attempt, at most.
        attempts: starts, at most. The one with the smallest loss is returned where none reaches the goal.
        goal: training loss, in nats a string, at which training ends.
        seed: all randomness follows from it.
        on_update: called with the number of the attempt, from 1, the update and the model as it stands.

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
    if mode not in ("exact", "soft", "straight_through"):
        raise ValueError(f"mode must be 'exact', 'soft' or 'straight_through', got {mode!r}")
    tree = PrefixTree(train)
    if bool((tree.counts > 0).all(-1).any()):
        raise ValueError("train has strings with several labels; a stochastic language is learned by learn_stochastic")
    best: Learned | None = None
    for attempt in range(attempts):
        model = _network(train, num_states, hidden_size, embedding_size, mode, head, derive_seed(seed, "start", attempt))

        def watch(update: Update, number: int = attempt + 1, model: SequenceClassifier = model) -> None:
            if on_update is not None:
                on_update(number, update, model)

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
    optimiser = torch.optim.Adam(model.parameters(), learning_rate)
    depth = min(_FIRST_LENGTH, tree.depth) if grows else tree.depth
    lowest, stale = math.inf, 0
    log: list[Update] = []
    for number in range(1, updates + 1):
        loss, update = _step(model, tree, optimiser, depth, number, updates)
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
    optimiser: torch.optim.Optimizer,
    depth: int,
    number: int,
    of: int,
) -> tuple[float, Update]:
    loss = tree.loss(model, depth)
    optimiser.zero_grad()
    loss.backward()
    norm = float(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    optimiser.step()
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
        train.inputs,
        train.labels,
        train.lengths,
        updates=updates,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seed=seed,
        on_update=enough,
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
    model.remember(data)
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
