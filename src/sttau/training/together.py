"""Several trainings at once, in one process.

A small network leaves most of a GPU idle, and separate processes only take turns on it. Here every training has a
stream of its own, on which whole updates are replayed as CUDA graphs, so that they run beside each other; and LSTMs of
one shape, which are bound by starting kernels, are stacked into one (``engine/stacked/``).
"""

from __future__ import annotations

import inspect
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from sttau.models import SequenceModel
from sttau.seeds import derive_seed
from sttau.training.interruption import Interrupted, interruptible
from sttau.training.log import Update
from sttau.training.loop import begin, fit, team_of
from sttau.training.run import Run
from sttau.training.stacking import alike
from sttau.training.team import Team

_log = logging.getLogger(__name__)

_LARGEST = 16  # networks of a team
_TURN = 25  # updates that are given to a GPU before the next team has its turn
_AHEAD = 4  # turns that a GPU may have before it, of one team
_GLANCE = 0.0005  # seconds between looks at whether one is through
_ALONE = ("optimizer", "patience", "callbacks")  # with which a run could end before the others of its team
_COMMON = ("updates", "batch_size", "bucket_batches", "validate_every", "checkpoint_every")


@dataclass(frozen=True, eq=False)
class Job:
    """A call of :func:`fit` that is still to be made: its model, its data and its other arguments by name."""

    model: SequenceModel
    inputs: Any
    targets: Any
    lengths: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)


class Finished(NamedTuple):
    """A job that is done, or has failed."""

    number: int  # of the job, counted from 0
    job: Job
    log: list[Update]
    seconds: float  # that it took, beside the others
    error: Exception | None  # why it failed; the others go on


def fit_together(jobs: Iterable[Job], at_once: int = 16) -> Iterator[Finished]:
    """Train several models in one process, and hand over each as soon as it is done.

    Args:
        jobs: taken one by one as room becomes free, so an iterator may make models late.
        at_once: how many streams there are on a GPU. Jobs that follow each other, with LSTMs of one shape (plain,
            Bayesian or with variational dropout) and options that differ in seed and rates only, share one, up to 16.
            On a CPU, and without the option ``cuda_graphs``, a job is trained to its end before the next begins.

    Example:
        >>> import torch
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> x, y = torch.randn(32, 5, 2), torch.arange(32) % 2
        >>> models = [SequenceClassifier(STTauGRU(2, 8, num_states=3), num_classes=2) for _ in range(3)]
        >>> jobs = (Job(model, x, y, options={"updates": 4, "seed": seed}) for seed, model in enumerate(models))
        >>> [(done.number, len(done.log)) for done in fit_together(jobs)]
        [(0, 4), (1, 4), (2, 4)]
    """
    if at_once < 1:
        raise ValueError(f"at_once must be at least 1, got {at_once}")
    waiting = _Groups(enumerate(jobs))
    playing: deque[_Playing] = deque()
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=range(torch.cuda.device_count())))
        interrupted = stack.enter_context(interruptible())
        while True:
            while (not playing or (playing[-1].lasting and len(playing) < at_once)) and (group := waiting.next()):
                begun, failed = _begin(group)
                yield from failed
                playing.extend(_Playing(runs, interrupted) for runs in begun)
            if not playing:
                return
            team = _take_next(playing)
            try:
                done = team.turn()
            except Interrupted:
                for other in playing:
                    other.leave()
                raise
            if team.goes_on:
                playing.append(team)
            yield from done


def _take_next(playing: deque[_Playing]) -> _Playing:
    """The team that has waited longest of those that are ready: no team waits for a slower one."""
    while True:
        for team in playing:
            if team.is_ready:
                playing.remove(team)
                return team
        time.sleep(_GLANCE)


class _Groups:
    """Takes jobs that follow each other and are alike as one group."""

    def __init__(self, jobs: Iterator[tuple[int, Job]]) -> None:
        self.jobs = jobs
        self.first: tuple[int, Job] | None = next(jobs, None)

    def next(self) -> list[tuple[int, Job]]:
        group: list[tuple[int, Job]] = []
        while self.first is not None and (not group or self._joins(group, self.first[1])):
            group.append(self.first)
            self.first = next(self.jobs, None)
        return group

    def _joins(self, group: list[tuple[int, Job]], job: Job) -> bool:
        key = _kind(job)
        return key is not None and len(group) < _LARGEST and key == _kind(group[0][1])


def _kind(job: Job) -> Hashable | None:
    """What jobs must have in common to be trained as one team."""
    like, options = alike(job.model), job.options
    device = job.model.head.weight.device
    if like is None or device.type != "cuda" or not options.get("cuda_graphs"):
        return None
    if options.get("precision", "float32") != "float32" or any(options.get(name) is not None for name in _ALONE):
        return None
    common = tuple((name, options.get(name)) for name in sorted(_COMMON))
    return like, len(job.inputs), job.inputs.shape[1], job.lengths is None, common


class _Begun(NamedTuple):
    """A run that is to go on."""

    number: int
    job: Job
    run: Run
    stack: ExitStack
    began: float


def _begin(group: list[tuple[int, Job]]) -> tuple[list[list[_Begun]], list[Finished]]:
    """Begin the jobs of a group, or resume them: those that are at the same update make a team; what fails is told."""
    teams: dict[Hashable, list[_Begun]] = {}
    failed = []
    for number, job in group:
        began, stack = time.perf_counter(), ExitStack()
        try:
            run = stack.enter_context(begin(_arguments(job)))
        except Exception as error:
            failed.append(Finished(number, job, [], time.perf_counter() - began, error))
        else:
            teams.setdefault((run.number, run.ended), []).append(_Begun(number, job, run, stack, began))
    return list(teams.values()), failed


class _Playing:
    """Jobs that are being trained as one team."""

    def __init__(self, begun: list[_Begun], interrupted: Callable[[], bool]) -> None:
        self.begun, self.interrupted = {item.number: item for item in begun}, interrupted
        self.runs = {item.number: item.run for item in begun}
        self.due = begun[0].run.ended
        self.team: Team | None = team_of([item.run for item in begun], _arguments(begun[0].job))
        self.lasting = self.team.captured is not None  # whether what it is given to do lasts for a while
        self.ahead: deque[torch.cuda.Event] = deque()  # the ends of turns that the GPU is not through with

    @property
    def goes_on(self) -> bool:
        return self.team is not None

    @property
    def is_ready(self) -> bool:
        """Whether it can be given something to do; if its updates are to be heard of first, they must be through."""
        while self.ahead and self.ahead[0].query():
            self.ahead.popleft()
        return len(self.ahead) < (1 if self.due else _AHEAD)

    def turn(self) -> list[Finished]:
        """Do some updates; return what is done."""
        assert self.team is not None
        done: list[Finished] = []
        with self.team.at_work():
            try:
                if self.due:  # since the last turn, or it was ended before it was begun
                    done += self._look_after()
                while self.runs:
                    if not self.lasting:
                        torch.manual_seed(self._seed())
                    self.team.update()
                    runs = list(self.runs.values())
                    self.due = any(run.due() for run in runs) or self.interrupted()
                    if self.due and not self.lasting:
                        done += self._look_after()
                    if self.lasting and (self.due or runs[0].number % _TURN == 0):
                        break  # the GPU has something to do; see to the others meanwhile
            except Interrupted:
                raise
            except Exception as error:
                done += [self._finish(number, error) for number in list(self.runs)]
            if self.lasting and self.runs:
                self.ahead.append(torch.cuda.Event())
                self.ahead[-1].record()
        if not self.runs:
            self.team = None
        return done

    def leave(self) -> None:
        """Keep checkpoints of what was done, for training ends here."""
        if self.team is None:
            return
        with self.team.at_work():
            for run in self.runs.values():
                with suppress(Interrupted):
                    try:
                        if run.silent:
                            run.look_after(lambda: True)
                        else:  # it has been looked after, but perhaps not kept
                            run.keep()
                    except Exception as error:  # the others are kept all the same
                        _log.warning("no checkpoint of update %d was kept: %s", run.number, error)

    def _look_after(self) -> list[Finished]:
        done, self.due = [], False
        interruption: Interrupted | None = None
        for number, run in list(self.runs.items()):
            try:
                run.look_after(self.interrupted)
            except Interrupted as error:
                interruption = error
            except Exception as error:
                done.append(self._finish(number, error))
                continue
            if run.ended and not interruption:
                done.append(self._finish(number, None))
        if interruption is not None:
            raise interruption
        return done

    def _seed(self) -> int:
        run = next(iter(self.runs.values()))
        return derive_seed(run.settings.seed, "update", run.number + 1)

    def _finish(self, number: int, error: Exception | None) -> Finished:
        run, begun = self.runs.pop(number), self.begun[number]
        begun.stack.close()
        if self.team is not None and self.team.stream is not None:
            self.team.stream.synchronize()  # the model may be used on any stream from now on
        return Finished(number, begun.job, run.updates, time.perf_counter() - begun.began, error)


def _arguments(job: Job) -> dict[str, Any]:
    """All arguments of ``fit``, by their names."""
    bound = inspect.signature(fit).bind(job.model, job.inputs, job.targets, job.lengths, **job.options)
    bound.apply_defaults()
    return dict(bound.arguments)
