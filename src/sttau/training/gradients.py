"""The gradient of one batch, in any precision."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sttau.engine import Noise
from sttau.models import Predictor
from sttau.training.batches import Batch
from sttau.training.options import Precision
from sttau.training.streams import StreamPool


class Gradient(NamedTuple):
    """Loss and gradient of a process's part of a batch; over all processes they sum to those of the batch."""

    loss: Tensor  # a scalar
    values: tuple[Tensor | None, ...]  # per parameter, scaled by the scaler; None where the loss does not depend on it


_Part = tuple[Tensor, dict[nn.Parameter, Tensor | None]]  # loss and gradient of one network


class Gradients:
    """Computes gradients eagerly.

    The members of an ensemble go forward and backward one after another: only one of them has its intermediate results
    in memory, and in the cache. On a GPU each has its own stream, so that small ones run concurrently. The result is
    the gradient of the sum.

    Args:
        model: Predictor whose loss, and penalty where it has one, is differentiated.
        parameters: Parameters to differentiate with respect to.
        scaler: Scaler of the loss, so that gradients do not underflow in half precision; it may be disabled.
        precision: ``float32`` for the model's own dtype; the others are those of ``torch.autocast``.
        sequences: Number of training sequences, by which the penalty is divided.
        processes: Number of processes that each add a share of the penalty.
        streams: Whether members may have their own streams; not where the work is captured.
    """

    def __init__(
        self,
        model: Predictor,
        parameters: list[nn.Parameter],
        scaler: torch.amp.GradScaler,
        precision: Precision,
        sequences: int,
        processes: int,
        streams: bool = True,
    ) -> None:
        self.model, self.parameters, self.scaler = model, parameters, scaler
        self.dtype = None if precision == "float32" else getattr(torch, precision)
        self.sequences, self.processes = sequences, processes
        self.may_use_streams = streams
        self.pool: StreamPool | None = None
        self.seen: set[torch.Size] = set()

    def __call__(self, batch: Batch) -> Gradient:
        """Return the gradient of a batch."""
        networks = self.model.separate_losses(batch.noise)
        works: list[Callable[[], _Part]] = [partial(self._gradient, network, batch, own) for network, own in networks]
        # Cached constants of a new shape are made on the current stream, which all others wait for.
        if self.may_use_streams and len(works) > 1 and batch.inputs.is_cuda and batch.inputs.shape in self.seen:
            self.pool = self.pool or StreamPool(batch.inputs.device)
            parts = self._concurrently(works, self.pool)
        else:
            parts = [work() for work in works]
            self.seen.add(batch.inputs.shape)
        loss, total = parts[0][0], dict(parts[0][1])
        for other, values in parts[1:]:
            loss = loss + other
            for parameter, value in values.items():  # two networks may share a weight
                before = total.get(parameter)
                total[parameter] = value if before is None else before if value is None else before + value
        return Gradient(loss, tuple(total.get(parameter) for parameter in self.parameters))

    def _gradient(self, network: Predictor, batch: Batch, noise: Noise | None) -> _Part:
        """Loss of one network, and the gradient of its own parameters."""
        device = batch.inputs.device.type
        own = self.parameters
        if network is not self.model:
            there = set(network.parameters())
            own = [parameter for parameter in own if parameter in there]
        # Without autocast's cache of converted weights, which would outlive a captured graph.
        with nullcontext() if self.dtype is None else torch.autocast(device, self.dtype, cache_enabled=False):
            weights = (
                {} if batch.weights is None else {"weights": batch.weights}
            )  # a model's own loss may not take them
            loss = network.loss(batch.inputs, batch.targets, batch.lengths, noise=noise, **weights) * batch.share
            penalty = network.penalty(self.sequences)
            if penalty is not None:
                loss = loss + penalty / self.processes
        if not own:  # all of its weights are frozen
            return loss.detach(), {}
        with torch.autograd.set_multithreading_enabled(False):  # waking another thread takes longer than a short step
            values = torch.autograd.grad(self.scaler.scale(loss), own, allow_unused=True)
        return loss.detach(), dict(zip(own, values, strict=True))

    def _concurrently(self, works: list[Callable[[], _Part]], pool: StreamPool) -> list[_Part]:
        parts = pool.run(works)
        for loss, values in parts:
            for tensor in (loss, *values.values()):
                if tensor is not None:
                    tensor.record_stream(torch.cuda.current_stream(pool.device))
        return parts
