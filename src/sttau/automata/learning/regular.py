"""Learning of regular languages: training that ends when an automaton can be extracted."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from automata.fa.dfa import DFA

from sttau.automata.extraction import extract_dfa
from sttau.automata.learning.imitation import imitate
from sttau.automata.learning.network import new_network, tree_update
from sttau.automata.learning.prefix_tree import PrefixTree, check_same_alphabet, string_vocabulary
from sttau.automata.learning.state_merging import Order, learn_by_merging
from sttau.checks import as_integer
from sttau.data.dataset import SequenceDataset
from sttau.inference import predict
from sttau.layers import LayerMode
from sttau.models import Head, SequenceClassifier
from sttau.seeds import derive_seed
from sttau.training import Update, fit

_log = logging.getLogger(__name__)

#: Called with the number of the attempt, from 1, every update and the model.
Callback = Callable[[int, Update, SequenceClassifier], None]

_FIRST_LENGTH = 2  # longest strings at the beginning of an attempt with increasing lengths
_GROWS_BELOW = 0.05  # loss at which longer strings are added
_PATIENCE = 150  # updates without progress after which an attempt ends
_IN_A_ROW = 20  # consecutive batches that must reach the target loss


@dataclass(frozen=True)
class Learned:
    """A network trained for extraction, and the result of its training.

    Attributes:
        model: Network in eval mode, with the vocabulary of its data.
        log: Updates of the best attempt: loss and τ.
        attempts: Number of attempts made.
        best_attempt: Number of the attempt that was kept, from 1.
        loss: Mean negative log-likelihood of the training labels, in nats.
        wrong: Number of training and validation strings that the network or its extracted automaton labels wrongly.
        reached: Whether the loss reached the target and no label is wrong. It does not prove that the true language was
            found.
        merged: Automaton that state merging found in the training strings; None without one.
        reason: Why the goal was not reached and what to try; empty if it was reached.
    """

    model: SequenceClassifier
    log: list[Update]
    attempts: int
    best_attempt: int
    loss: float
    wrong: int
    reached: bool
    merged: DFA | None = None
    reason: str = ""


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
    target_loss: float = 1e-4,
    warm_start: bool = True,
    seconds: float | None = None,
    seed: int = 0,
    callbacks: Callback | Iterable[Callback] = (),
) -> Learned:
    """Train a GRU-form network on the labeled strings of a regular language until an automaton can be extracted.

    Exact training uses the whole training set in every update, as a tree of prefixes. The first attempt starts from the
    automaton that state merging finds in the training strings (:func:`learn_by_merging`), if the network has enough
    states for it; the others start from random weights. Training converges within a few hundred updates or not at all,
    so an attempt without progress is ended and a new one starts from other weights. Every second attempt begins with
    the shortest strings and adds longer ones as the loss falls: languages whose strings can only be distinguished by
    counting several symbols, such as Tomita 5, need it.

    An attempt succeeds if the loss reaches the target and both the network and its extracted automaton label all
    training and validation strings correctly. If none does, a warning is logged, and the result and the saved model
    hold the reason. The true language is not used.

    Args:
        train: Labeled strings with the start token.
        validation: Strings that a successful attempt must label correctly too; preferably longer ones.
        num_states: Number of states k.
        hidden_size: Hidden size d.
        embedding_size: Size of the embedding.
        mode: ``exact``; ``soft`` and ``hard`` train on batches of samples.
        head: ``dense``, or ``halves`` (the paper's Algorithm 2).
        batch_size: Strings per update; if None, all of them for exact training, and 64 otherwise.
        learning_rate: Learning rate of Adam.
        updates: Largest number of updates per attempt.
        attempts: Largest number of attempts. The one with the smallest loss is returned if none succeeds.
        target_loss: Training loss, in nats per string, at which training ends.
        warm_start: Whether the first attempt of exact training on all strings starts from the automaton that state
            merging finds.
        seconds: Time limit of all attempts together; None for no limit.
        seed: Seed of all randomness.
        callbacks: Functions called with the number of the attempt, from 1, the update and the model.

    Example:
        >>> from sttau.automata import extract_dfa, tomita
        >>> from sttau.data import load
        >>> learned = learn(load("tomita1", "train"), load("tomita1", "validation"))
        >>> learned.reached, extract_dfa(learned.model, learned.model.vocabulary).equivalent_to(tomita(1))
        (True, Equivalence(equal=True, counterexample=None))
    """
    for name, value in (("updates", updates), ("attempts", attempts), ("hidden_size", hidden_size)):
        as_integer(name, value, 1)
    if batch_size is not None:
        as_integer("batch_size", batch_size, 1)
    if not target_loss > 0:
        raise ValueError(f"target_loss must be positive, got {target_loss}")
    if mode not in ("exact", "soft", "hard"):
        raise ValueError(f"mode must be 'exact', 'soft' or 'hard', got {mode!r}")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds must be positive, or None for no limit, got {seconds}")
    callbacks = (callbacks,) if callable(callbacks) else tuple(callbacks)
    tree = PrefixTree(train)
    if bool((tree.counts > 0).all(-1).any()):
        raise ValueError("train has strings with several labels; use learn_stochastic for a stochastic language")
    if validation is not None:
        check_same_alphabet(train, validation)
    whole = mode == "exact" and batch_size is None
    merged = _merged(train, validation, 2 * num_states) if warm_start and whole else None
    deadline = _Deadline(seconds)
    best: Learned | None = None
    for attempt in range(attempts):
        model = new_network(
            train, num_states, hidden_size, embedding_size, mode, head, derive_seed(seed, "start", attempt)
        )
        warm = attempt == 0 and merged is not None and imitate(model, merged, tree.start) is not None

        def report(update: Update, number: int = attempt + 1, model: SequenceClassifier = model) -> None:
            for callback in callbacks:
                callback(number, update, model)

        if whole:
            grows = attempt % 2 == 1 and not warm
            log = _train_on_tree(model, tree, updates, learning_rate, target_loss, grows, report, deadline)
            with torch.no_grad():
                loss = float(tree.loss(model))
        else:
            log = _train_on_batches(
                model, train, updates, batch_size or 64, learning_rate, target_loss, seed + attempt, report, deadline
            )
            loss = sum(update.loss for update in log[-_IN_A_ROW:]) / len(log[-_IN_A_ROW:])
        model.eval()
        wrong = sum(_count_wrong(model, data) for data in (train, validation) if data is not None)
        reached = loss <= target_loss and wrong == 0
        if best is None or (reached, -loss) > (best.reached, -best.loss):
            best = Learned(model, log, attempt + 1, attempt + 1, loss, wrong, reached, merged)
        if reached or deadline.passed():
            break
    assert best is not None
    best = replace(best, attempts=attempt + 1)
    if not best.reached:
        suggested = merged is not None or not (warm_start and whole)
        best = replace(best, reason=_reason(best, train, validation, num_states, target_loss, suggested, deadline))
        _log.warning("learn did not reach its goal: %s", best.reason)
    best.model.set_note("learned", {"reached": best.reached, "reason": best.reason})
    return best


def _merged(train: SequenceDataset, validation: SequenceDataset | None, largest: int) -> DFA | None:
    """The automaton that state merging finds: with the fewest validation errors, then with the fewest states."""
    if len(train.class_names) != 2:
        return None
    orders: tuple[Order, ...] = ("evidence", "canonical")
    found = [dfa.minify() for order in orders if (dfa := learn_by_merging(train, order, largest=largest)) is not None]
    return min(found, key=lambda dfa: (_count_wrong_by(dfa, validation), len(dfa.states)), default=None)


def _count_wrong_by(dfa: DFA, data: SequenceDataset | None) -> int:
    """Number of strings that an automaton labels wrongly."""
    if data is None:
        return 0
    vocabulary = string_vocabulary(data)
    words: list[Any] = [  # lists of symbols, which automata-lib accepts too
        [vocabulary[token] for token in tokens[1:length]]
        for tokens, length in zip(data.inputs.tolist(), data.lengths.tolist(), strict=True)
    ]
    labels = data.labels.tolist()
    return sum(dfa.accepts_input(word) != (label == 1) for word, label in zip(words, labels, strict=True))


class _Deadline:
    """A limit on the duration of all attempts together."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.end = math.inf if seconds is None else time.monotonic() + seconds

    def passed(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self.end


def _reason(
    best: Learned,
    train: SequenceDataset,
    validation: SequenceDataset | None,
    num_states: int,
    target_loss: float,
    suggested: bool,
    deadline: _Deadline,
) -> str:
    """Return why the goal was not reached, and what to try."""
    size = None if best.merged is None else len(best.merged.states)
    missed = _count_wrong_by(best.merged, validation) if best.merged is not None else 0
    count = f"{best.attempts} attempt{'s' if best.attempts > 1 else ''}"
    parts = [f"after {count} the loss is {best.loss:.2g} (target {target_loss:g}) and {best.wrong} labels are wrong"]
    if deadline.passed():
        parts.append(f"the time limit of {deadline.seconds:g} seconds is over")
    if not suggested:
        parts.append(
            f"no automaton of up to {2 * num_states} states fits the training labels: some labels are wrong (then "
            "learn_stochastic estimates probabilities), the language is not regular, or num_states is far too small"
            + _growth(train, 2 * num_states)
        )
    elif size is not None and size > num_states:
        parts.append(
            f"state merging finds {size} states, more than num_states = {num_states}: raise num_states"
            + _growth(train, 2 * num_states)
        )
    elif size is not None and missed:
        parts.append(
            f"the automaton of {size} states that fits the training strings labels {missed} validation strings "
            "wrongly, so the training strings do not determine the language: add strings, above all short ones"
        )
    else:
        parts.append("try more attempts or updates, another seed, or more states")
    return "; ".join(parts)


def _growth(train: SequenceDataset, largest: int) -> str:
    """Evidence that the language is not regular: ever larger automata for ever longer strings; empty without it."""
    longest = int(train.lengths.max()) - 1
    lengths = sorted({longest * part // 4 for part in (1, 2, 3, 4)} - {0})
    sizes = []
    for length in lengths:
        dfa = learn_by_merging(train.select(train.lengths <= length + 1), "canonical", largest=largest)
        if dfa is None:
            break
        sizes.append(len(dfa.minify().states))
    if len(sizes) < 3 or any(later <= before for before, later in pairwise(sizes)):
        return ""
    shown = ", ".join(f"{size} up to length {length}" for size, length in zip(sizes, lengths, strict=False))
    return f". The number of states grows with the strings ({shown}), as it does where a language is not regular"


def _train_on_tree(
    model: SequenceClassifier,
    tree: PrefixTree,
    updates: int,
    learning_rate: float,
    target_loss: float,
    grows: bool,
    report: Callable[[Update], None],
    deadline: _Deadline,
) -> list[Update]:
    """One attempt on the whole tree or, if it ``grows``, on strings of increasing length."""
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    depth = min(_FIRST_LENGTH, tree.depth) if grows else tree.depth
    lowest, stale = math.inf, 0
    log: list[Update] = []
    for number in range(1, updates + 1):
        loss, update = tree_update(model, tree, optimizer, depth, number, updates)
        log.append(update)
        report(update)
        if deadline.passed():
            break
        if depth < tree.depth and loss < _GROWS_BELOW:
            depth, lowest, stale = depth + 1, math.inf, 0
        elif depth == tree.depth and loss <= target_loss:
            break
        elif loss < 0.9 * lowest:
            lowest, stale = loss, 0
        else:
            stale += 1
            if stale == _PATIENCE:
                break
    return log


def _train_on_batches(
    model: SequenceClassifier,
    train: SequenceDataset,
    updates: int,
    batch_size: int,
    learning_rate: float,
    target_loss: float,
    seed: int,
    report: Callable[[Update], None],
    deadline: _Deadline,
) -> list[Update]:
    """One attempt on batches, until the loss of several in a row has reached the target."""
    reached = 0

    def stop(update: Update) -> bool:
        nonlocal reached
        reached = reached + 1 if update.loss <= target_loss else 0
        report(update)
        return reached >= _IN_A_ROW or deadline.passed()

    return fit(
        model,
        train,
        updates=updates,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seed=seed,
        callbacks=stop,
        progress=False,
    )


def _count_wrong(model: SequenceClassifier, data: SequenceDataset) -> int:
    """Number of strings that the network or its extracted automaton labels wrongly."""
    vocabulary = string_vocabulary(data)
    by_network = predict(model, data.inputs, data.lengths).label == data.labels
    extracted = extract_dfa(model, vocabulary, start=vocabulary[int(data.inputs[0, 0])])
    by_automaton = extracted.accepts(data.inputs, data.lengths) == (data.labels == 1)
    return int((~(by_network & by_automaton)).sum())
