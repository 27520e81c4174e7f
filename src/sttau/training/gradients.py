"""The gradient of one batch: in any precision, and as CUDA graphs."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

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


class Gradients:
    """Computes gradients step by step, as PyTorch does.

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

    def __call__(self, batch: Batch) -> Gradient:
        """Return the gradient of a batch."""
        device = batch.inputs.device.type
        # Without a cache of converted weights, which would outlive a captured graph.
        with nullcontext() if self.dtype is None else torch.autocast(device, self.dtype, cache_enabled=False):
            loss = self.model.loss(batch.inputs, batch.targets, batch.lengths, noise=batch.noise) * batch.share
            penalty = self.model.penalty(self.sequences)
            if penalty is not None:
                loss = loss + penalty / self.processes
        with torch.autograd.set_multithreading_enabled(False):  # waking another thread takes longer than a short step
            values = torch.autograd.grad(self.scaler.scale(loss), self.parameters, allow_unused=True)
        return Gradient(loss.detach(), values)


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
            try:
                self.graphs[key] = _Graph(self.gradients, batch, self.pool)
            except RuntimeError as error:
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
            with _no_waiting():
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
def _no_waiting() -> Iterator[None]:
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
