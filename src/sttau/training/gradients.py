"""The gradient of one batch, in any precision."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from sttau.engine import Noise
from sttau.models import SequenceModel
from sttau.training.batches import Batch
from sttau.training.lanes import Lanes

Precision = Literal["float32", "bfloat16", "float16"]

_log = logging.getLogger(__name__)


class Gradient(NamedTuple):
    """Loss and gradient of a process's part of a batch; over all processes they add up to those of the batch."""

    loss: Tensor  # a scalar
    values: tuple[
        Tensor | None, ...
    ]  # one a parameter; None where the loss does not depend on it. Scaled by the scaler


_Part = tuple[Tensor, dict[torch.nn.Parameter, Tensor | None]]  # loss and gradient of one network


class Gradients:
    """Computes gradients step by step, as PyTorch does.

    Networks that are trained apart, the members of an ensemble, go forward and backward one after another: only one of
    them has its intermediate results in memory, and in the cache. On a GPU each has a stream of its own, so that small
    ones run beside each other. The numbers are those of the gradient of the sum.

    Args:
        model: whose loss, and whose penalty where it has one.
        parameters: with respect to which.
        scaler: enlarges the loss, so that gradients do not vanish in half precision; it may be switched off.
        precision: float32 for the model's own number type; the others are those of ``torch.autocast``.
        sequences: how many there are to train on; the penalty is divided by it.
        processes: that add a penalty each, of which there must be one.
        streams: whether networks may have streams of their own; what is to be captured may not.
    """

    def __init__(
        self,
        model: SequenceModel,
        parameters: list[torch.nn.Parameter],
        scaler: torch.amp.GradScaler,
        precision: Precision,
        sequences: int,
        processes: int,
        streams: bool = True,
    ) -> None:
        self.model, self.parameters, self.scaler = model, parameters, scaler
        self.dtype = None if precision == "float32" else getattr(torch, precision)
        self.sequences, self.processes = sequences, processes
        self.may_have_streams = streams
        self.lanes: Lanes | None = None
        self.seen: set[torch.Size] = set()

    def __call__(self, batch: Batch) -> Gradient:
        """Return the gradient of a batch."""
        networks = self.model.apart(batch.noise)
        works: list[Callable[[], _Part]] = [partial(self._gradient, network, batch, own) for network, own in networks]
        # What is made once and kept, such as constants of a shape, is made on the current stream, which all wait for.
        if self.may_have_streams and len(works) > 1 and batch.inputs.is_cuda and batch.inputs.shape in self.seen:
            self.lanes = self.lanes or Lanes(batch.inputs.device)
            parts = self._beside_each_other(works, self.lanes)
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

    def _gradient(self, network: SequenceModel, batch: Batch, noise: Noise | None) -> _Part:
        """Loss of one network, and the gradient of those parameters that are its own."""
        device = batch.inputs.device.type
        own = self.parameters
        if network is not self.model:
            there = set(network.parameters())
            own = [parameter for parameter in own if parameter in there]
        # Without a cache of converted weights, which would outlive a captured graph.
        with nullcontext() if self.dtype is None else torch.autocast(device, self.dtype, cache_enabled=False):
            loss = network.loss(batch.inputs, batch.targets, batch.lengths, noise=noise) * batch.share
            penalty = network.penalty(self.sequences)
            if penalty is not None:
                loss = loss + penalty / self.processes
        if not own:  # all of its weights are held fast
            return loss.detach(), {}
        with torch.autograd.set_multithreading_enabled(False):  # waking another thread takes longer than a short step
            values = torch.autograd.grad(self.scaler.scale(loss), own, allow_unused=True)
        return loss.detach(), dict(zip(own, values, strict=True))

    def _beside_each_other(self, works: list[Callable[[], _Part]], lanes: Lanes) -> list[_Part]:
        parts = lanes.do(works)
        for loss, values in parts:
            for tensor in (loss, *values.values()):
                if tensor is not None:
                    tensor.record_stream(torch.cuda.current_stream(lanes.device))
        return parts


@contextmanager
def no_waiting() -> Iterator[None]:
    """Raise where something waits for the GPU: before the capture, which such a thing would leave in pieces."""
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that it does not find everything
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(mode)
