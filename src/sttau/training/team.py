"""Runs that make their updates together: one alone, or several networks of one kind whose recurrences are stacked."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

from sttau.training.batches import Batch
from sttau.training.gradients import Gradient, no_waiting
from sttau.training.lanes import Lanes
from sttau.training.run import Run
from sttau.training.stacking import losses

_log = logging.getLogger(__name__)

Shape = tuple[int, int | None]  # rows and steps of a batch


class Team:
    """Makes the updates of its runs.

    Args:
        runs: of which each has a batch of its own at every update; several must be alike (:func:`stacking.alike`).
        gradients: of the run's batches, where it is one.
    """

    def __init__(self, runs: Sequence[Run], gradients: Callable[[Batch], Gradient]) -> None:
        self.runs, self.gradients = list(runs), gradients
        self.captured: Captured | None = None
        self.lanes = Lanes(runs[0].processes.device)  # for what the runs of a team do one by one
        self.stream: torch.cuda.Stream | None = None
        clocks = [run.clock for run in runs if run.clock is not None]
        if clocks:
            device = runs[0].processes.device
            self.stream = torch.cuda.Stream(device)
            self.stream.wait_stream(torch.cuda.current_stream(device))
            self.captured = Captured(self._work, [clock.generator for clock in clocks])

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Inside, work is given to the team's own stream, where it has one."""
        if self.stream is None:
            yield
            return
        with torch.cuda.stream(self.stream):
            yield

    def wait(self) -> None:
        """Let what comes next on the current stream wait for all that was done."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)

    def update(self) -> None:
        """Make one update of every run."""
        if self.captured is None:
            (run,) = self.runs
            run.step(*self.gradients(run.next_batch()))
        else:
            shapes = [
                run.clock.prepare(run.order, run.data, run.settings.seed, run.number + 1)
                for run in self.runs
                if run.clock is not None
            ]
            sizes, ends = zip(*shapes, strict=True)
            assert len(set(sizes)) == 1, "the runs of a team have batches of one size"
            shape = (sizes[0], None if ends[0] is None else max(ends))
            if not self.captured(shape):  # something was begun and not ended
                for run in self.runs:
                    if run.clock is not None:
                        run.clock.number.fill_(run.number)
                self._work(shape)
        for run in self.runs:
            run.count()

    def _work(self, shape: Shape) -> None:
        """One update of every run, by their clocks."""
        if len(self.runs) == 1:
            (run,) = self.runs
            with _drawing(run):
                run.step(*self.gradients(run.take_batch(*shape)))
            return
        batches = self.lanes.do([partial(run.take_batch, *shape) for run in self.runs])
        models, drawing = [run.model for run in self.runs], [partial(_drawing, run) for run in self.runs]
        parts = losses(models, batches, self.runs[0].order.sequences, drawing, self.lanes)
        wanted = [parameter for run in self.runs for parameter in run.parameters]
        total = torch.stack(parts).sum()
        with torch.autograd.set_multithreading_enabled(False):
            values = iter(torch.autograd.grad(total, wanted, allow_unused=True))
        steps = [partial(run.step, loss.detach()) for run, loss in zip(self.runs, parts, strict=True)]
        gradients = [tuple(next(values) for _ in run.parameters) for run in self.runs]
        self.lanes.do([partial(step, gradient) for step, gradient in zip(steps, gradients, strict=True)])


def _drawing(run: Run) -> Any:
    return nullcontext() if run.clock is None else run.clock.drawing()


class Captured:
    """Work as CUDA graphs, one for each shape that comes often: the GPU need not wait for Python.

    What cannot be captured, such as a layer that asks the GPU for a number, runs step by step, and the log says so.

    Args:
        work: all of whose effects are on the device; done anew each time.
        generators: that it draws from.
    """

    _OFTEN = 2
    _MOST = 64

    def __init__(self, work: Callable[[Any], None], generators: Sequence[torch.Generator]) -> None:
        self.work, self.generators = work, generators
        self.graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self.seen: Counter[Hashable] = Counter()
        self.obstacle: str | None = None
        self.pool: Any = None

    def __call__(self, shape: Hashable) -> bool:
        """Do the work once; return False if it could not be done to its end."""
        self.seen[shape] += 1
        graph = self.graphs.get(shape)
        if graph is None:
            if self.obstacle or self.seen[shape] < self._OFTEN or len(self.graphs) >= self._MOST:
                self.work(shape)
                return True
            try:
                if self.seen[shape] == self._OFTEN and not self.graphs:
                    with no_waiting():
                        self.work(shape)
                    return True
                graph = self.graphs[shape] = self._capture(shape)
            except RuntimeError as error:
                self.obstacle = str(error).strip().split("\n")[0]
                _log.warning(
                    "training runs without CUDA graphs, because this model cannot be captured: %s", self.obstacle
                )
                return False
        graph.replay()
        return True

    def _capture(self, shape: Hashable) -> torch.cuda.CUDAGraph:
        """Record the work, without doing it; the current stream must not be the default one."""
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        with ExitStack() as stack:
            if gc.isenabled():  # what is freed in the middle could ask the GPU something
                gc.disable()
                stack.callback(gc.enable)
            self.pool = self.pool or torch.cuda.graph_pool_handle()
            graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
            try:
                self.work(shape)
            finally:
                graph.capture_end()
        return graph
