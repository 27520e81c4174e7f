"""Predictions of concurrent requests, computed together.

One thread computes. It takes sequences of all waiting requests in turn, as many as fit into one batch, so that a large
request is computed in slices between which small ones are answered. Requests share a batch only where that leaves every
bit of an answer as it is (docs/reliability.md).
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from sttau.inference import Prediction, RegressionPrediction, predict
from sttau.layers import SAMPLED_MODES, LayerMode
from sttau.models import Predictor

Predicted = Prediction | RegressionPrediction

#: Rows (sequences · samples) from which on predictions have the same bits in every batch.
_ROWS = 4


@dataclass(frozen=True)
class Job:
    """Sequences to predict.

    Attributes:
        model: Model.
        inputs: (batch, time, features), or (batch, time) token ids.
        lengths: (batch,) valid steps.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise.
        mode: Mode of the layer.
        per_step: Whether to predict after every step.
    """

    model: Predictor
    inputs: Tensor
    lengths: Tensor
    samples: int = 10
    seed: int = 0
    mode: LayerMode | None = None
    per_step: bool = False

    @property
    def key(self) -> tuple[Any, ...] | None:
        """What requests must have in common to be computed together; None for those that are computed alone."""
        model = self.model
        joins = (
            not self.per_step
            and model.task == "classification"
            and model.dtype == torch.float32
            and model.device.type == "cpu"
            and self.samples >= _ROWS
            and model.resolve_mode(self.mode) in SAMPLED_MODES
        )
        return (id(model), self.samples, self.seed, self.mode) if joins else None


@dataclass
class _Waiting:
    job: Job
    future: Future[Predicted]
    done: int = 0
    parts: list[Predicted] = field(default_factory=list)


class Batcher:
    """Computes predictions in a thread of its own.

    Args:
        batch_work: Steps · samples · sequences that are computed at once; a single sequence may be more.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(2, 8, num_states=4), 2).eval()
        >>> batcher = Batcher()
        >>> future = batcher.submit(Job(model, torch.zeros(3, 5, 2), torch.tensor([5, 5, 5])))
        >>> future.result()
        Prediction(3 sequences, 2 classes, mode='soft', 10 samples)
        >>> batcher.close()
    """

    def __init__(self, batch_work: int = 1 << 16) -> None:
        self._work = batch_work
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.batches = self.sequences = 0
        self._thread = threading.Thread(target=self._run, name="sttau-batcher", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of requests that are not answered yet."""
        return len(self._queue)

    def submit(self, job: Job) -> Future[Predicted]:
        """Add sequences to the queue. A result that is no longer wanted is not computed after ``future.cancel()``."""
        future: Future[Predicted] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the server is shutting down")
            self._queue.append(_Waiting(job, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """End the thread; what waits is canceled."""
        with self._changed:
            self._closed = True
            for waiting in self._queue:
                waiting.future.cancel()
            self._queue.clear()
            self._changed.notify()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                taken = self._take()
            if taken:
                self._compute(taken)

    def _take(self) -> list[tuple[_Waiting, int]]:
        """Take requests that go together from the queue, each with the number of its sequences to compute now."""
        taken: list[tuple[_Waiting, int]] = []
        rest: list[_Waiting] = []
        room, key = self._work, None
        while self._queue and (not taken or (key is not None and room > 0)):
            waiting = self._queue.popleft()
            if waiting.future.cancelled():
                continue
            job = waiting.job
            if taken and job.key != key:
                rest.append(waiting)
                continue
            key = job.key
            per_sequence = job.inputs.shape[1] * job.samples
            count = max(room // per_sequence, -(-_ROWS // job.samples), 1)
            count = min(count, len(job.inputs) - waiting.done)
            if 0 < len(job.inputs) - waiting.done - count < _ROWS:  # no slice of so few rows that its bits differ
                count = len(job.inputs) - waiting.done
            taken.append((waiting, count))
            room -= count * per_sequence
        self._queue.extendleft(reversed(rest))
        return taken

    def _compute(self, taken: list[tuple[_Waiting, int]]) -> None:
        first = taken[0][0].job
        try:
            inputs, lengths = _join([(w.job, slice(w.done, w.done + count)) for w, count in taken])
            result = predict(
                first.model, inputs, lengths, first.samples, first.seed, first.mode, per_step=first.per_step
            )
        except Exception as error:  # it belongs to whoever asked
            for waiting, _ in taken:
                _finish(waiting.future, error)
            return
        self.batches += 1
        self.sequences += len(inputs)
        begin = 0
        for waiting, count in taken:
            time = int(waiting.job.inputs.shape[1])
            waiting.parts.append(_rows(result, slice(begin, begin + count), time if first.per_step else None))
            waiting.done += count
            begin += count
            if waiting.done == len(waiting.job.inputs):
                _finish(waiting.future, _concatenate(waiting.parts))
            else:
                with self._changed:
                    self._queue.append(waiting)


def _finish(future: Future[Predicted], result: Predicted | Exception) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _join(parts: list[tuple[Job, slice]]) -> tuple[Tensor, Tensor]:
    """Return sequences of several requests as one padded batch."""
    if len(parts) == 1:
        job, rows = parts[0]
        return job.inputs[rows], job.lengths[rows]
    time = max(job.inputs.shape[1] for job, _ in parts)
    padded = []
    for job, rows in parts:
        x = job.inputs[rows]
        whole = x.new_zeros(len(x), time, *x.shape[2:])
        whole[:, : x.shape[1]] = x
        padded.append(whole)
    return torch.cat(padded), torch.cat([job.lengths[rows] for job, rows in parts])


def _rows(result: Predicted, rows: slice, time: int | None) -> Predicted:
    """Return some rows of a prediction; with a number of steps, only so many."""
    changes = {name: value[rows] for name, value in result._tensors().items()}
    if time is not None:
        changes = {name: value[:, :time] for name, value in changes.items()}
    return replace(result, **changes)  # type: ignore[arg-type]


def _concatenate(parts: list[Predicted]) -> Predicted:
    if len(parts) == 1:
        return parts[0]
    names = parts[0]._tensors()
    return replace(parts[0], **{name: torch.cat([part._tensors()[name] for part in parts]) for name in names})  # type: ignore[arg-type]
