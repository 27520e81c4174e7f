"""How updates are made: eagerly for one run, or as CUDA graphs for one run or several stacked ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch

from sttau.seeds import derive_seed, seed_generators
from sttau.training.batches import Batch
from sttau.training.gradients import Gradient
from sttau.training.graph import GraphCache
from sttau.training.run import Run
from sttau.training.stacking import stacked_losses
from sttau.training.streams import StreamPool

Shape = tuple[int, int | None]  # rows and steps of a batch


class EagerStep:
    """Makes the updates of one run as PyTorch executes them.

    Args:
        run: Run to update.
        gradients: Function from a batch to loss and gradient.
    """

    is_captured = False

    def __init__(self, run: Run, gradients: Callable[[Batch], Gradient]) -> None:
        self.runs, self.gradients = [run], gradients

    @contextmanager
    def active(self) -> Iterator[None]:
        """Context for all work on the runs."""
        yield

    def wait(self) -> None:
        """Wait for all work."""

    def update(self) -> None:
        """Make one update; PyTorch's generator is seeded for it, so that a resumed run draws the same."""
        (run,) = self.runs
        seed_generators(derive_seed(run.options.seed, "update", run.number + 1))
        with run.progress():
            run.step(*self.gradients(run.next_batch()))
        run.count()


class GraphedStep:
    """Makes the updates of one run, or of several stacked ones, as CUDA graphs on a stream of their own.

    Args:
        runs: Runs to update together; several must be stackable (:func:`stacking.stack_key`).
        gradients: Function from a batch to loss and gradient, for a single run.
    """

    is_captured = True

    def __init__(self, runs: Sequence[Run], gradients: Callable[[Batch], Gradient]) -> None:
        self.runs, self.gradients = list(runs), gradients
        device = runs[0].processes.device
        self.pool = StreamPool(device)  # for what stacked runs do separately
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        inputs = [run.device_inputs for run in runs]
        self.device_inputs = [one for one in inputs if one is not None]
        assert len(self.device_inputs) == len(self.runs), "every run of a graphed step has its inputs on the device"
        self.graphs = GraphCache(self._update, [one.generator for one in self.device_inputs])

    @contextmanager
    def active(self) -> Iterator[None]:
        """Context in which work is submitted to the step's own stream."""
        with torch.cuda.stream(self.stream):
            yield

    def wait(self) -> None:
        """Let the current stream wait for all work of the step."""
        torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)

    def update(self) -> None:
        """Make one update of every run."""
        shapes = [
            inputs.prepare(run.order, run.data, run.options.seed, run.number + 1)
            for run, inputs in zip(self.runs, self.device_inputs, strict=True)
        ]
        sizes, ends = zip(*shapes, strict=True)
        assert len(set(sizes)) == 1, "stacked runs have batches of one size"
        shape = (sizes[0], None if ends[0] is None else max(ends))
        if not self.graphs(shape):  # the capture failed halfway
            for run, inputs in zip(self.runs, self.device_inputs, strict=True):
                inputs.number.fill_(run.number)
            self._update(shape)
        for run in self.runs:
            run.count()

    def _update(self, shape: Shape) -> None:
        """One update of every run, from what is on the device."""
        if len(self.runs) == 1:
            (run,) = self.runs
            with run.random_generator(), run.progress():
                run.step(*self.gradients(run.next_device_batch(*shape)))
            return
        batches = self.pool.run([partial(run.next_device_batch, *shape) for run in self.runs])
        models, generators = [run.state.model for run in self.runs], [run.random_generator for run in self.runs]
        parts = stacked_losses(models, batches, self.runs[0].order.sequences, generators, self.pool)
        wanted = [parameter for run in self.runs for parameter in run.state.parameters]
        total = torch.stack(parts).sum()
        with torch.autograd.set_multithreading_enabled(False):
            values = iter(torch.autograd.grad(total, wanted, allow_unused=True))
        steps = [partial(run.step, loss.detach()) for run, loss in zip(self.runs, parts, strict=True)]
        gradients = [tuple(next(values) for _ in run.state.parameters) for run in self.runs]
        self.pool.run([partial(step, gradient) for step, gradient in zip(steps, gradients, strict=True)])
