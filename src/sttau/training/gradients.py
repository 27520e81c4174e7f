"""The gradient of one batch: in any precision, and as CUDA graphs."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from sttau.engine import Noise
from sttau.models import SequenceModel
from sttau.training.batches import Batch

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
    ones run beside each other, unless they are being captured. The numbers are those of the gradient of the sum.

    Args:
        model: whose loss, and whose penalty where it has one.
        parameters: with respect to which.
        scaler: enlarges the loss, so that gradients do not vanish in half precision; it may be switched off.
        precision: float32 for the model's own number type; the others are those of ``torch.autocast``.
        sequences: how many there are to train on; the penalty is divided by it.
        processes: that add a penalty each, of which there must be one.
    """

    def __init__(
        self,
        model: SequenceModel,
        parameters: list[torch.nn.Parameter],
        scaler: torch.amp.GradScaler,
        precision: Precision,
        sequences: int,
        processes: int,
    ) -> None:
        self.model, self.parameters, self.scaler = model, parameters, scaler
        self.dtype = None if precision == "float32" else getattr(torch, precision)
        self.sequences, self.processes = sequences, processes
        self.streams: list[torch.cuda.Stream] = []
        self.seen: set[torch.Size] = set()

    def __call__(self, batch: Batch) -> Gradient:
        """Return the gradient of a batch."""
        networks = self.model.apart(batch.noise)
        works: list[Callable[[], _Part]] = [partial(self._gradient, network, batch, own) for network, own in networks]
        # What is made once and kept, such as constants of a shape, is made on the current stream, which all wait for.
        beside = len(works) > 1 and batch.inputs.is_cuda and batch.inputs.shape in self.seen
        if beside and not torch.cuda.is_current_stream_capturing():  # a capture with several streams fails
            parts = self._beside_each_other(works, batch.inputs.device)
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

    def _beside_each_other(self, works: list[Callable[[], _Part]], device: torch.device) -> list[_Part]:
        """Each on a stream that begins and ends where the current one is."""
        while len(self.streams) < len(works):
            self.streams.append(torch.cuda.Stream(device))
        current = torch.cuda.current_stream(device)
        parts = []
        for work, stream in zip(works, self.streams, strict=False):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                parts.append(work())
        for stream in self.streams[: len(works)]:
            current.wait_stream(stream)
        for loss, values in parts:
            for tensor in (loss, *values.values()):
                if tensor is not None:
                    tensor.record_stream(current)
        return parts


class CapturedGradients:
    """The same as CUDA graphs, one for each shape that comes often: the GPU need not wait for Python.

    What cannot be captured, such as a layer that asks the GPU for a number, runs step by step, and the log says so.
    """

    _OFTEN = 3
    _MOST = 64

    def __init__(self, gradients: Gradients) -> None:
        self.gradients = gradients
        self.graphs: dict[Any, _Graph] = {}
        self.seen: Counter[Any] = Counter()
        self.obstacle: str | None = None
        self.pool: Any = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch) -> Gradient:
        """Return the gradient of a batch; the next call overwrites it."""
        key = (batch.inputs.shape, batch.lengths is None, batch.share)
        self.seen[key] += 1
        if key not in self.graphs:
            if self.obstacle or self.seen[key] < self._OFTEN or len(self.graphs) >= self._MOST:
                return self.gradients(batch)
            draws = torch.cuda.default_generators[batch.inputs.device.index].clone_state()
            try:
                self.graphs[key] = _Graph(self.gradients, batch, self.pool)
            except RuntimeError as error:
                torch.cuda.default_generators[batch.inputs.device.index].graphsafe_set_state(draws)  # not in capture
                self.obstacle = str(error).strip().split("\n")[0]
                _log.warning(
                    "training runs without CUDA graphs, because this model cannot be captured: %s", self.obstacle
                )
                return self.gradients(batch)
        return self.graphs[key](batch)


class _Graph:
    """One captured computation and the memory it reads from and writes to."""

    def __init__(self, gradients: Gradients, batch: Batch, pool: Any) -> None:
        self.tensors = [tensor.clone() for tensor in _tensors(batch)]
        own = _with_tensors(batch, self.tensors)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            gradients(own)
            with no_waiting():
                gradients(own)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.result = gradients(own)

    def __call__(self, batch: Batch) -> Gradient:
        for own, new in zip(self.tensors, _tensors(batch), strict=True):
            own.copy_(new)
        self.graph.replay()
        return self.result


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


def _tensors(batch: Batch) -> list[Tensor]:
    tensors = (batch.inputs, batch.targets, batch.lengths, batch.noise.sequence, batch.noise.sample)
    return [tensor for tensor in tensors if tensor is not None]


def _with_tensors(batch: Batch, tensors: list[Tensor]) -> Batch:
    inputs, targets, *lengths, sequence, sample = tensors
    noise = type(batch.noise)(batch.noise.seed, sequence, sample)
    return Batch(inputs, targets, lengths[0] if lengths else None, noise, batch.share)
