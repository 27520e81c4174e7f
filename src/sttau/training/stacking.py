"""Networks of one kind that are run together, for they would leave a GPU idle one by one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from sttau.engine import stacked
from sttau.layers import BayesLSTM, VariationalDropoutLSTM
from sttau.models import FixedLabels, SequenceClassifier, SequenceModel
from sttau.training.batches import Batch
from sttau.training.lanes import Lanes


def alike(model: SequenceModel) -> Hashable | None:
    """What networks must have in common to be run together; None for one that cannot be.

    These are classifiers with one layer in one direction that is an LSTM: plain, Bayesian or with variational dropout.

    Example:
        >>> one, other = (SequenceClassifier(nn.LSTM(3, size), num_classes=2) for size in (8, 16))
        >>> alike(one) == alike(one), alike(one) == alike(other), alike(SequenceClassifier(nn.GRU(3, 8), 2))
        (True, False, None)
    """
    layer = model.layer if len(model.members) == 1 else None
    if not isinstance(layer, nn.LSTM | BayesLSTM | VariationalDropoutLSTM) or not isinstance(model, SequenceClassifier):
        return None
    if layer.num_layers > 1 or layer.bidirectional or not layer.bias or model.paths > 1:
        return None
    if isinstance(model.head, FixedLabels):
        return None
    embedding = None if model.embedding is None else tuple(model.embedding.weight.shape)
    return layer.input_size, layer.hidden_size, embedding, layer.weight_ih_l0.dtype, layer.weight_ih_l0.device


def losses(
    models: Sequence[SequenceModel],
    batches: Sequence[Batch],
    sequences: int,
    drawing: Sequence[Callable[[], AbstractContextManager[Any]]],
    lanes: Lanes,
) -> list[Tensor]:
    """The loss of each network on its own batch, with its penalty; the recurrences run as one.

    Args:
        models: that are :func:`alike`.
        batches: one for each, of one shape.
        sequences: how many there are to train on; penalties are divided by it.
        drawing: one for each; what it gives is entered wherever PyTorch's generator may be drawn from.
        lanes: for what each does by itself.
    """
    items = list(zip(models, batches, drawing, strict=True))
    parts, lengths = zip(*lanes.do([partial(_begin, *item) for item in items]), strict=True)
    features = stacked.run(parts, lengths)
    return lanes.do([partial(_end, *item, read, sequences) for item, read in zip(items, features, strict=True)])


def _begin(
    model: SequenceModel, batch: Batch, draws: Callable[[], AbstractContextManager[Any]]
) -> tuple[stacked.Part, Tensor | None]:
    """What goes into the recurrence, and its lengths."""
    with draws():
        inputs, lengths = model._prepared(batch.inputs, batch.lengths)
        x = model._vectors(inputs)
    layer = model.layer
    if isinstance(layer, nn.LSTM):
        return stacked.Part(x, stacked.Weights(*layer.parameters())), lengths
    assert isinstance(layer, BayesLSTM | VariationalDropoutLSTM)
    (part,) = layer.parts(x, batch.noise)
    return part, lengths


def _end(
    model: SequenceModel,
    batch: Batch,
    draws: Callable[[], AbstractContextManager[Any]],
    features: Tensor,
    sequences: int,
) -> Tensor:
    """The loss, from what the layer gave after the last step."""
    with draws():
        features = F.dropout(features, model.dropout, model.training)
    loss = F.cross_entropy(model.head(features), batch.targets)
    penalty = model.penalty(sequences)
    return loss if penalty is None else loss + penalty
