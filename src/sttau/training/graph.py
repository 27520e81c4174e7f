"""CUDA graphs of whole updates: what a captured update reads on the device, and the captured graphs."""

from __future__ import annotations

import gc
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from sttau.seeds import derive_seed
from sttau.training.batches import Data, Order
from sttau.training.ema import EMA
from sttau.training.options import TrainOptions

_log = logging.getLogger(__name__)


class DeviceInputs:
    """What a replayed update reads on the device: its number, rows and rates, and where it writes its results.

    A captured update is launched without arguments, so everything that differs between updates is looked up in tensors.

    Args:
        options: Options of the run.
        order: Order of its batches.
        ema: Its moving average, whose rates are tabulated.
        device: GPU of the run.
        history: Number of updates whose results are kept until they are read.
    """

    def __init__(
        self, options: TrainOptions, order: Order, ema: EMA | None, device: torch.device, history: int
    ) -> None:
        numbers = range(1, options.total_updates + 1)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self.learning_rate = torch.tensor(options.learning_rate, device=device)
        self.learning_rates = torch.tensor([options.learning_rate_at(number) for number in numbers], device=device)
        rates = [0.0 if ema is None else ema.rate(number) for number in numbers]
        self.ema_rates = torch.tensor(rates, device=device)
        self.rows = torch.zeros(order.sequences, dtype=torch.int64, device=device)
        self.starts = torch.zeros(order.batches, dtype=torch.int64, device=device)
        self.generator = torch.Generator(device)  # of dropout
        self.results: Tensor | None = None  # (history, …) results of the last updates
        self.history = history
        self._epoch, self._sizes = -1, list[int]()  # of the batches of the epoch on the device
        self._ends: list[int | None] = []

    def prepare(self, order: Order, data: Data, seed: int, update: int) -> tuple[int, int | None]:
        """Copy what an update needs to the device; return its number of rows and of steps."""
        epoch, place = order.place(update)
        if epoch != self._epoch:
            batches = order.shuffled(epoch)
            self.rows.copy_(torch.cat(batches))
            sizes = torch.tensor([0, *map(len, batches)])
            self.starts.copy_(sizes.cumsum(0)[:-1])
            self._epoch, self._sizes = epoch, sizes[1:].tolist()
            self._ends = [data.end(rows, few_shapes=True) for rows in batches]
        self.generator.manual_seed(derive_seed(seed, "update", update))
        return self._sizes[place], self._ends[place]

    def advance(self, size: int) -> Tensor:
        """Advance to the next update, on the device; return its rows."""
        self.number += 1
        before = self.number - 1
        self.learning_rate.copy_(self.learning_rates[before][0])
        start = self.starts[before % len(self.starts)]
        return self.rows[start + torch.arange(size, device=start.device)]

    def ema_rate(self) -> Tensor:
        """Return the rate of the moving average at the present update."""
        return self.ema_rates[self.number - 1][0]

    def write_results(self, values: Tensor) -> None:
        """Keep the results of the present update."""
        if self.results is None:
            self.results = values.new_zeros(self.history, len(values))
        self.results.index_copy_(0, self.number % self.history, values[None])

    def read_results(self, last: int, count: int) -> Tensor:
        """Return the results of the last ``count`` updates up to number ``last``."""
        assert self.results is not None
        slots = torch.arange(last - count + 1, last + 1) % self.history
        return self.results.cpu()[slots]

    @contextmanager
    def random_generator(self) -> Iterator[None]:
        """Let PyTorch's default generator of the device draw from this one inside the context."""
        own = torch.cuda.default_generators[self.number.device.index]
        before = own.graphsafe_get_state()
        own.graphsafe_set_state(self.generator)
        try:
            yield
        finally:
            own.graphsafe_set_state(before)


class GraphCache:
    """Work as CUDA graphs, one for each shape that occurs often.

    Work that cannot be captured, such as a layer that reads a value from the GPU, runs eagerly, with a warning; so does
    work for which memory is missing, until it can be captured.

    Args:
        work: Function of a shape, all of whose effects are on the device.
        generators: Generators that it draws from.
    """

    _OFTEN = 2
    _MOST = 64
    _PAUSE = 500  # calls before a capture for which memory was missing is tried again

    def __init__(self, work: Callable[[Any], None], generators: Sequence[torch.Generator]) -> None:
        self.work, self.generators = work, generators
        self.graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self.seen: Counter[Hashable] = Counter()
        self.obstacle: str | None = None
        self.calls = self.next_try = 0
        self.pool: Any = None

    def __call__(self, shape: Hashable) -> bool:
        """Do the work once; return False if it was not completed."""
        self.seen[shape] += 1
        self.calls += 1
        graph = self.graphs.get(shape)
        if graph is None:
            paused = self.obstacle is not None or self.calls < self.next_try
            if paused or self.seen[shape] < self._OFTEN or len(self.graphs) >= self._MOST:
                self.work(shape)
                return True
            try:
                if self.seen[shape] == self._OFTEN and not self.graphs:
                    with synchronization_forbidden():
                        self.work(shape)
                    return True
                graph = self.graphs[shape] = self._capture(shape)
            except RuntimeError as error:
                self._not_captured(str(error).strip().split("\n")[0])
                return False
        graph.replay()
        return True

    def _not_captured(self, reason: str) -> None:
        """Log why, and do not try again, or not soon."""
        if "out of memory" not in reason:
            self.obstacle = reason
            _log.warning("training runs without CUDA graphs, because this model cannot be captured: %s", reason)
            return
        if not self.next_try:
            _log.warning("training runs without CUDA graphs while GPU memory is missing for them: %s", reason)
        self.next_try = self.calls + self._PAUSE
        torch.cuda.empty_cache()

    def _capture(self, shape: Hashable) -> torch.cuda.CUDAGraph:
        """Record the work without doing it; the current stream must not be the default one."""
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        with ExitStack() as stack:
            if gc.isenabled():  # freeing objects during capture could query the GPU
                gc.disable()
                stack.callback(gc.enable)
            self.pool = self.pool or torch.cuda.graph_pool_handle()
            graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
            try:
                self.work(shape)
            finally:
                graph.capture_end()
        return graph


@contextmanager
def synchronization_forbidden() -> Iterator[None]:
    """Raise where something waits for the GPU: before the capture, which such a thing would break."""
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that it does not find everything
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(mode)
