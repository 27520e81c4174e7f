"""Networks of one shape that are trained as one, because each alone would leave a GPU idle."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, cast

import torch.nn.functional as F
from torch import Tensor, nn

from sttau.engine import stacked
from sttau.models import Predictor, SequenceClassifier
from sttau.models.hooks import is_changed
from sttau.training.batches import Batch
from sttau.training.streams import StreamPool

Context = Callable[[], AbstractContextManager[Any]]


def stack_key(model: Predictor) -> Hashable | None:
    """Return what networks must have in common to be trained as one; None for one that cannot be.

    Only exact types qualify, since the stacked forward and loss replace those of the model: a
    :class:`SequenceClassifier` with a dense head on one stackable layer. A subclass, a hook or a function assigned to
    the model or one of its modules may give another loss or forward.

    Example:
        >>> one, other = (SequenceClassifier(nn.LSTM(3, size), num_classes=2) for size in (8, 16))
        >>> stack_key(one) == stack_key(one), stack_key(one) == stack_key(other)
        (True, False)
        >>> stack_key(SequenceClassifier(nn.GRU(3, 8), 2)) is None
        True
    """
    if type(model) is not SequenceClassifier or type(model.head) is not nn.Linear:
        return None
    layer = model.layer
    if not layer.is_stackable or model.paths > 1:
        return None
    embedding = None if model.embedding is None else tuple(model.embedding.weight.shape)
    if model.embedding is not None and type(model.embedding) is not nn.Embedding:
        return None
    if any(is_changed(module) for module in model.modules()):
        return None
    return layer.input_size, layer.hidden_size, embedding, layer.dtype, layer.device


def stacked_losses(
    models: Sequence[Predictor],
    batches: Sequence[Batch],
    sequences: int,
    generators: Sequence[Context],
    pool: StreamPool,
) -> list[Tensor]:
    """Return the loss of each network on its own batch, with its penalty; the recurrences run as one.

    Args:
        models: Networks with the same :func:`stack_key`.
        batches: One batch for each, all of one shape.
        sequences: Number of training sequences, by which penalties are divided.
        generators: For each network, the context in which PyTorch's generator is drawn from.
        pool: Streams for what each network does separately.
    """
    networks = cast("Sequence[SequenceClassifier]", models)
    items = list(zip(networks, batches, generators, strict=True))
    parts, lengths = zip(*pool.run([partial(_before_layer, *item) for item in items]), strict=True)
    features = stacked.run(parts, lengths)
    return pool.run([partial(_after_layer, *item, read, sequences) for item, read in zip(items, features, strict=True)])


def _before_layer(model: SequenceClassifier, batch: Batch, generator: Context) -> tuple[stacked.Part, Tensor | None]:
    """The input of the recurrence, and its lengths."""
    with generator():
        inputs, lengths = model.prepare(batch.inputs, batch.lengths)
        x = model.embed(inputs)
    (part,) = model.layer.stacked_parts(x, batch.noise)
    return part, lengths


def _after_layer(
    model: SequenceClassifier, batch: Batch, generator: Context, features: Tensor, sequences: int
) -> Tensor:
    """The loss, from the output of the layer after the last step."""
    with generator():
        features = F.dropout(features, model.dropout, model.training)
    loss = model.loss_from_logits(model.head(features), batch.targets, batch.weights)
    penalty = model.penalty(sequences)
    return loss if penalty is None else loss + penalty
