"""One attempt to train a network: on the tree of prefixes or on batches, with an end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch

from sttau.automata.learning.network import tree_update
from sttau.automata.learning.prefix_tree import PrefixTree
from sttau.data.dataset import SequenceDataset
from sttau.models import SequenceClassifier
from sttau.training import Update, fit

IN_A_ROW = 20  # consecutive batches that must reach the target loss

_FIRST_LENGTH = 2  # longest strings at the beginning of an attempt with increasing lengths
_GROWS_BELOW = 0.05  # loss at which longer strings are added
_PATIENCE = 150  # updates without progress after which an attempt ends


class Deadline:
    """A limit on the duration of all attempts together."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.begin = time.monotonic()
        self.end = math.inf if seconds is None else self.begin + seconds

    def part(self, share: float) -> Deadline:
        """Return a limit that ends after a share of this one's time, from the same beginning."""
        other = Deadline(None)
        other.seconds, other.begin, other.end = self.seconds, self.begin, self.begin + share * (self.end - self.begin)
        return other

    def passed(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self.end


def train_on_tree(
    model: SequenceClassifier,
    tree: PrefixTree,
    updates: int,
    learning_rate: float,
    target_loss: float,
    grows: bool,
    report: Callable[[Update], None],
    deadline: Deadline,
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


def train_on_batches(
    model: SequenceClassifier,
    train: SequenceDataset,
    updates: int,
    batch_size: int,
    learning_rate: float,
    target_loss: float,
    seed: int,
    report: Callable[[Update], None],
    deadline: Deadline,
) -> list[Update]:
    """One attempt on batches, until the loss of several in a row has reached the target."""
    reached = 0

    def stop(update: Update) -> bool:
        nonlocal reached
        reached = reached + 1 if update.loss <= target_loss else 0
        report(update)
        return reached >= IN_A_ROW or deadline.passed()

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
