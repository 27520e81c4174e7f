"""The training loop, the same for every model."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sttau.checks import as_tensor
from sttau.layers import FiniteStateRNN
from sttau.models import SequenceModel


@dataclass(frozen=True)
class Update:
    """One update of the weights, as it is reported and logged."""

    number: int  # from 1
    of: int
    loss: float
    temperature: tuple[float, ...]  # τ of each layer and direction; empty for a layer without states
    validation: float | None = None  # what ``validate`` returned, where it was called


def fit(
    model: SequenceModel,
    inputs: Any,
    targets: Any,
    lengths: Any = None,
    *,
    updates: int = 1000,
    batch_size: int = 64,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.0,
    clip_norm: float | None = 1.0,
    seed: int = 0,
    validate: Callable[[], float] | None = None,
    validate_every: int = 100,
    on_update: Callable[[Update], bool | None] | None = None,
) -> list[Update]:
    """Train a model in place with Adam on random batches.

    Batches go through the data in a new random order each time round. All randomness follows from ``seed``; PyTorch's
    global generator is left as it was.

    Args:
        model: a classifier or regressor.
        inputs: (sequences, time, features), or (sequences, time) token ids.
        targets: labels (sequences,), or numbers (sequences, outputs).
        lengths: (sequences,) valid steps.
        updates: how many batches to train on.
        batch_size: sequences a batch.
        learning_rate: of Adam.
        weight_decay: decoupled, as in AdamW.
        clip_norm: largest norm of the gradient; None for no limit.
        seed: of batch order, noise and dropout.
        validate: returns a number to be made small, such as the loss on validation data; the weights for which it was
            smallest are put back at the end.
        validate_every: how many updates lie between two calls of ``validate``.
        on_update: called after every update; training ends early when it returns True.

    Returns:
        The updates that were made.

    Example:
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> x = torch.randn(32, 5, 2)
        >>> model = SequenceClassifier(STTauGRU(2, 8, num_states=3), num_classes=2)
        >>> log = fit(model, x, (x.sum((1, 2)) > 0).long(), updates=20, learning_rate=0.01)
        >>> len(log), log[-1].loss < log[0].loss
        (20, True)
    """
    inputs, targets = as_tensor("inputs", inputs), as_tensor("targets", targets)
    lengths = model.check(inputs, None if lengths is None else as_tensor("lengths", lengths))
    targets = model.check_targets(targets, len(inputs))
    for name, number in (("updates", updates), ("batch_size", batch_size), ("validate_every", validate_every)):
        if number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
    if not learning_rate > 0:
        raise ValueError(f"learning_rate must be positive, got {learning_rate}")
    device = model.head.weight.device
    inputs, targets = inputs.to(device), targets.to(device)
    lengths = None if lengths is None else lengths.to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=weight_decay)
    log: list[Update] = []
    best, best_weights = math.inf, None
    training = model.training
    model.train()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            for number, rows in zip(range(1, updates + 1), _batches(len(inputs), batch_size, seed), strict=False):
                rows = rows.to(device)
                loss = model.loss(*_batch(inputs, targets, lengths, rows))
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                if clip_norm is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
                value = loss.item()
                if not math.isfinite(value):
                    raise FloatingPointError(
                        f"the loss became {value} at update {number} of {updates}; that update was not made. "
                        f"Lower learning_rate (now {learning_rate}) or clip_norm (now {clip_norm})."
                    )
                optimiser.step()
                score = None
                if validate is not None and (number % validate_every == 0 or number == updates):
                    score = validate()
                    if score < best:
                        best, best_weights = score, copy.deepcopy(model.state_dict())
                log.append(Update(number, updates, value, _temperature(model), score))
                if on_update is not None and on_update(log[-1]):
                    break
    finally:
        if best_weights is not None:
            model.load_state_dict(best_weights)
        model.train(training)
    return log


def _batches(size: int, batch_size: int, seed: int) -> Iterator[Tensor]:
    """Row numbers of batch after batch, without end: the data in a new order each time round."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(size, generator=generator).split(batch_size)


def _batch(
    inputs: Tensor, targets: Tensor, lengths: Tensor | None, rows: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Take these rows, cut to the longest of them."""
    if lengths is None:
        return inputs[rows], targets[rows], None
    length = lengths[rows]
    return inputs[rows, : int(length.max())], targets[rows], length


def _temperature(model: SequenceModel) -> tuple[float, ...]:
    if not isinstance(model.layer, FiniteStateRNN):
        return ()
    return tuple(model.layer.temperature.detach().flatten().tolist())
