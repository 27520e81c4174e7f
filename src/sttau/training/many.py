"""Several trainings at once, in one process.

A small network leaves most of a GPU idle, and separate processes only time-slice it. Here every training has its own
stream, on which whole updates are replayed as CUDA graphs, so that they run concurrently; and LSTMs of one shape, which
are bound by kernel launches, are stacked into one (``engine/stacked``).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from sttau.checks import as_integer
from sttau.models import Predictor
from sttau.training.interruption import Interrupted, interruptible
from sttau.training.log import Update
from sttau.training.options import TrainOptions
from sttau.training.run import Run
from sttau.training.stacking import stack_key
from sttau.training.step import EagerStep, GraphedStep
from sttau.training.trainer import start, step_of

_log = logging.getLogger(__name__)

_MAX_STACKED = 16  # networks that are stacked
_TURN = 25  # updates that are submitted to a GPU before the next group has its turn
_MAX_QUEUED = 4  # turns of one group that may be queued on a GPU
_POLL_SECONDS = 0.0005  # between checks whether a turn is over
_COMMON = ("updates", "epochs", "batch_size", "bucket_batches", "validate_every", "checkpoint_every")


@dataclass(frozen=True, eq=False)
class FitJob:
    """A call of :func:`fit` for :func:`fit_many`.

    Attributes:
        model: Model to train.
        data: A :class:`~sttau.data.SequenceDataset`, or inputs.
        targets: Targets, where ``data`` is inputs.
        lengths: Lengths, where ``data`` is inputs.
        validation: Validation data or function.
        options: Options of training.
    """

    model: Predictor
    data: Any
    targets: Any = None
    lengths: Any = None
    validation: Any = None
    options: TrainOptions = field(default_factory=TrainOptions)


class FitResult(NamedTuple):
    """Result of a completed or failed job."""

    number: int  # position among the jobs, from 0
    job: FitJob
    log: list[Update]
    seconds: float  # wall time, concurrent with the others
    error: Exception | None  # why it failed; the others continue


def fit_many(jobs: Iterable[FitJob], streams: int = 16) -> Iterator[FitResult]:
    """Train several models in one process, and yield each as soon as it is done.

    Args:
        jobs: Jobs, taken one by one as streams become free, so a generator may construct models late.
        streams: Number of concurrent streams on a GPU. Consecutive jobs with LSTMs of one shape (plain, Bayesian or
            with variational dropout) and options that differ in seed and rates only are stacked, up to 16. On a CPU,
            and without the option ``cuda_graphs``, a job is trained to its end before the next begins.

    Example:
        >>> import torch
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> x, y = torch.randn(32, 5, 2), torch.arange(32) % 2
        >>> models = [SequenceClassifier(STTauGRU(2, 8, num_states=3), num_classes=2) for _ in range(3)]
        >>> jobs = (FitJob(m, x, y, options=TrainOptions(updates=4, seed=seed)) for seed, m in enumerate(models))
        >>> [(done.number, len(done.log)) for done in fit_many(jobs)]
        [(0, 4), (1, 4), (2, 4)]
    """
    streams = as_integer("streams", streams, 1)
    waiting = _StackableGroups(enumerate(jobs))
    active: deque[_ActiveGroup] = deque()
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=range(torch.cuda.device_count())))
        interrupted = stack.enter_context(interruptible())
        while True:
            while (not active or (active[-1].is_captured and len(active) < streams)) and (group := waiting.next()):
                started, failed = _start(group)
                yield from failed
                active.extend(_ActiveGroup(runs, interrupted) for runs in started)
            if not active:
                return
            current = _next_ready(active)
            try:
                done = current.turn()
            except Interrupted:
                for other in active:
                    other.save()
                for other in (current, *active):
                    other.close()
                raise
            if current.is_active:
                active.append(current)
            yield from done


def _next_ready(active: deque[_ActiveGroup]) -> _ActiveGroup:
    """Remove and return the group that has waited longest of those that are ready."""
    while True:
        for group in active:
            if group.is_ready:
                active.remove(group)
                return group
        time.sleep(_POLL_SECONDS)


class _StackableGroups:
    """Groups consecutive jobs that can be stacked."""

    def __init__(self, jobs: Iterator[tuple[int, FitJob]]) -> None:
        self.jobs = jobs
        self.first: tuple[int, FitJob] | None = next(jobs, None)

    def next(self) -> list[tuple[int, FitJob]]:
        group: list[tuple[int, FitJob]] = []
        while self.first is not None and (not group or self._joins(group, self.first[1])):
            group.append(self.first)
            self.first = next(self.jobs, None)
        return group

    def _joins(self, group: list[tuple[int, FitJob]], job: FitJob) -> bool:
        key = _job_key(job)
        return key is not None and len(group) < _MAX_STACKED and key == _job_key(group[0][1])


def _job_key(job: FitJob) -> Hashable | None:
    """What jobs must have in common to be stacked; None for one that cannot be."""
    model_key, options = stack_key(job.model), job.options
    if model_key is None or job.model.device.type != "cuda" or not options.cuda_graphs:
        return None
    could_end_early = options.patience is not None or options.callbacks
    could_fail = callable(options.loss)  # which must not stop the others
    captured = options.optimizer is torch.optim.AdamW and options.scheduler is None
    if options.precision != "float32" or could_end_early or could_fail or not captured:
        return None
    common = tuple((name, getattr(options, name)) for name in _COMMON)
    inputs = getattr(job.data, "inputs", job.data)
    ragged = job.lengths is not None or hasattr(job.data, "lengths")
    return model_key, len(inputs), inputs.shape[1], ragged, common


class _Started(NamedTuple):
    """A run that has been set up."""

    number: int
    job: FitJob
    run: Run
    stack: ExitStack
    began: float


def _start(group: list[tuple[int, FitJob]]) -> tuple[list[list[_Started]], list[FitResult]]:
    """Set up the jobs of a group, resumed where they have checkpoints; those at the same update are stacked."""
    groups: dict[Hashable, list[_Started]] = {}
    failed = []
    for number, job in group:
        began, stack = time.perf_counter(), ExitStack()
        try:
            run = stack.enter_context(start(job.model, job.data, job.targets, job.lengths, job.validation, job.options))
        except Exception as error:
            failed.append(FitResult(number, job, [], time.perf_counter() - began, error))
        else:
            groups.setdefault((run.number, run.finished), []).append(_Started(number, job, run, stack, began))
    return list(groups.values()), failed


class _ActiveGroup:
    """Jobs that are being trained, stacked where there are several."""

    def __init__(self, started: list[_Started], interrupted: Callable[[], bool]) -> None:
        self.started, self.interrupted = {item.number: item for item in started}, interrupted
        self.runs = {item.number: item.run for item in started}
        self.is_due = started[0].run.finished
        self.step: EagerStep | GraphedStep | None = step_of([item.run for item in started])
        self.is_captured = self.step.is_captured  # whether a turn is queued on the GPU
        self.queued: deque[torch.cuda.Event] = deque()  # the ends of turns that are not over

    @property
    def is_active(self) -> bool:
        return self.step is not None

    @property
    def is_ready(self) -> bool:
        """Whether it can have a turn; if results are to be read first, its updates must be over."""
        while self.queued and self.queued[0].query():
            self.queued.popleft()
        return len(self.queued) < (1 if self.is_due else _MAX_QUEUED)

    def turn(self) -> list[FitResult]:
        """Make some updates; return the jobs that are done."""
        assert self.step is not None
        done: list[FitResult] = []
        with self.step.active():
            try:
                if self.is_due:  # since the last turn, or finished before it was started
                    done += self._after_updates()
                while self.runs:
                    self.step.update()
                    runs = list(self.runs.values())
                    self.is_due = any(run.is_due() for run in runs) or self.interrupted()
                    if self.is_due and not self.is_captured:
                        done += self._after_updates()
                    if self.is_captured and (self.is_due or runs[0].number % _TURN == 0):
                        break  # the GPU is busy; let the other groups have their turns
            except Interrupted:
                raise
            except Exception as error:
                done += [self._finish(number, error) for number in list(self.runs)]
            if self.is_captured and self.runs:
                self.queued.append(torch.cuda.Event())
                self.queued[-1].record()
        if not self.runs:
            self.step = None
        return done

    def save(self) -> None:
        """Write checkpoints, because training is interrupted."""
        if self.step is None:
            return
        with self.step.active():
            for run in self.runs.values():
                with suppress(Interrupted):
                    try:
                        if run.num_unread:
                            run.after_updates(lambda: True)
                        else:
                            run.save()
                    except Exception as error:  # the others are saved all the same
                        _log.warning("no checkpoint of update %d was written: %s", run.number, error)

    def close(self) -> None:
        """Leave the runs that are not done as an interrupted ``fit`` does: with their best weights, and logs closed."""
        for number in list(self.runs):
            self.started[number].stack.close()

    def _after_updates(self) -> list[FitResult]:
        done, self.is_due = [], False
        interruption: Interrupted | None = None
        for number, run in list(self.runs.items()):
            try:
                run.after_updates(self.interrupted)
            except Interrupted as error:
                interruption = error
            except Exception as error:
                done.append(self._finish(number, error))
                continue
            if run.finished and not interruption:
                done.append(self._finish(number, None))
        if interruption is not None:
            raise interruption
        return done

    def _finish(self, number: int, error: Exception | None) -> FitResult:
        run, started = self.runs.pop(number), self.started[number]
        started.stack.close()
        if isinstance(self.step, GraphedStep):
            self.step.stream.synchronize()  # the model may be used on any stream from now on
        return FitResult(number, started.job, run.updates, time.perf_counter() - started.began, error)
