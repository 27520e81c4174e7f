"""Speed of the engines compared with PyTorch's recurrent layers, as medians of alternating rounds in one process."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sttau.engine import Noise, using
from sttau.jobs import Result
from sttau.layers import STTauGRU, STTauLSTM
from sttau.seeds import seeded

Precision = Literal["float32", "tf32", "bfloat16"]
Task = Literal["training", "forward", "samples"]
SAMPLES = 10


@dataclass(frozen=True)
class Shape:
    """Shape of a layer and its input; all sequences have the full length.

    Attributes:
        cell: Recurrent cell.
        batch: Number of sequences.
        time: Number of steps per sequence.
        features: Number of input features per step; with a vocabulary, size of the embedding.
        hidden: Hidden size.
        states: Number of states.
        vocabulary: Number of different tokens; 0 for real-valued input.
        exact: Whether ST-τ runs in exact mode.
    """

    cell: Literal["lstm", "gru"]
    batch: int
    time: int
    features: int
    hidden: int
    states: int
    vocabulary: int = 0
    exact: bool = False

    @property
    def name(self) -> str:
        """Short name for tables."""
        source = f"tokens of {self.vocabulary}" if self.vocabulary else f"F{self.features}"
        mode = ", exact" if self.exact else ""
        return f"{self.cell.upper()} B{self.batch} T{self.time} {source} d{self.hidden} k{self.states}{mode}"


GPU_SHAPES = (
    Shape("lstm", 8, 500, 256, 256, 2),
    Shape("lstm", 8, 2956, 256, 256, 2),
    Shape("lstm", 8, 500, 256, 256, 10),
    Shape("lstm", 256, 187, 1, 128, 5),
    Shape("lstm", 256, 187, 1, 128, 10),
    Shape("lstm", 256, 187, 128, 128, 5),
    Shape("gru", 8, 500, 256, 256, 10),
    Shape("gru", 8, 2956, 256, 256, 10, exact=True),
)
CPU_SHAPES = (
    Shape("lstm", 8, 500, 256, 256, 2),
    Shape("lstm", 8, 500, 256, 256, 2, vocabulary=5000),
    Shape("lstm", 256, 187, 1, 128, 5),
    Shape("lstm", 256, 187, 128, 128, 5),
    Shape("gru", 8, 500, 256, 256, 10),
    Shape("gru", 8, 500, 256, 256, 10, exact=True),
)


def measure(
    shapes: tuple[Shape, ...],
    device: str,
    precisions: tuple[Precision, ...] = ("float32",),
    *,
    reference: bool = True,
    graphs: bool = False,
    rounds: int = 7,
    round_seconds: float = 0.15,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Result]:
    """Time a training step, a forward pass and ten Monte Carlo samples per shape, and measure memory of training.

    Args:
        shapes: Shapes to measure.
        device: Device, ``cuda`` or ``cpu``.
        precisions: Precisions to measure; only float32 is useful on a CPU.
        reference: Whether to time the step-by-step reference too (a single training step in float32; it is slow).
        graphs: Whether to time everything as a CUDA graph too, which excludes host overhead.
        rounds: Number of rounds, in which the methods alternate. Each result is the median over the rounds.
        round_seconds: Approximate duration of one method in one round.
        progress: Callback that is given a description of the current measurement.
    """
    for shape in shapes:
        for precision in precisions:
            began = time.perf_counter()
            allow = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
            try:
                metrics = _measure(shape, device, precision, reference, graphs, rounds, round_seconds, progress)
            finally:
                torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = allow
            seconds = time.perf_counter() - began
            for method, values in metrics.items():
                yield Result(
                    experiment="speed",
                    data=shape.name,
                    method=method,
                    states=shape.states,
                    seed=0,
                    metrics=values,
                    settings={**asdict(shape), "precision": precision, "rounds": rounds, "device": device},
                    seconds=seconds,
                )


@seeded(0)
def _measure(
    shape: Shape,
    device: str,
    precision: Precision,
    reference: bool,
    graphs: bool,
    rounds: int,
    round_seconds: float,
    progress: Callable[[str], None],
) -> dict[str, dict[str, float]]:
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    plain = _Plain(shape, device, dtype)
    ours = _Ours(shape, device, dtype)
    metrics: dict[str, dict[str, float]] = {plain.name: {}, ours.name: {}}
    tasks: tuple[Task, ...] = ("training", "forward") if shape.exact else ("training", "forward", "samples")
    for task in tasks:
        progress(f"{shape.name}, {precision}: {task}")
        work = {model.name: model.work(task) for model in (plain, ours)}
        for method, value in time_alternately(work, device, rounds, round_seconds).items():
            metrics[method][f"{task}_ms"] = value
        if graphs:
            replays = {method: _captured(call) for method, call in work.items()}
            for method, value in time_alternately(replays, device, rounds, round_seconds).items():
                metrics[method][f"{task}_graph_ms"] = value
            del replays
    if device != "cpu":
        for model in (plain, ours):
            metrics[model.name]["training_mb"] = _memory(model.work("training")) / 2**20
    if reference and precision == "float32" and not shape.exact:
        progress(f"{shape.name}: step by step")
        with using("reference"):
            call = ours.work("training")
            call()
            metrics["reference"] = {"training_ms": _seconds(call, 1, device) * 1e3}
    return metrics


class _Plain:
    """``nn.LSTM`` or ``nn.GRU``, with an embedding for token input."""

    def __init__(self, shape: Shape, device: str, dtype: torch.dtype) -> None:
        kind = nn.LSTM if shape.cell == "lstm" else nn.GRU
        self.name = f"nn.{kind.__name__}"
        self.layer = kind(shape.features, shape.hidden).to(device, dtype)
        self.embedding = _embedding(shape, device, dtype)
        self.inputs = make_inputs(shape, device, dtype)

    def _last(self) -> Tensor:
        x = self.inputs if self.embedding is None else self.embedding(self.inputs)
        output: Tensor = self.layer(x)[0]
        return output[-1]

    def work(self, task: Task) -> Callable[[], None]:
        """Return a training step or a forward pass; ten samples are compared with one forward pass."""
        modules: list[nn.Module] = [self.layer] if self.embedding is None else [self.layer, self.embedding]
        return training_step(self._last, modules) if task == "training" else without_gradients(self._last)


class _Ours:
    """An ST-τ layer on the same input."""

    def __init__(self, shape: Shape, device: str, dtype: torch.dtype) -> None:
        kind = STTauLSTM if shape.cell == "lstm" else STTauGRU
        self.name = "st-tau exact" if shape.exact else "st-tau"
        options: dict[str, Any] = {"mode": "exact"} if shape.exact else {"readout": "cell"}
        self.layer = kind(shape.features, shape.hidden, shape.states, device=device, dtype=dtype, **options)
        self.embedding = _embedding(shape, device, dtype)
        self.inputs = make_inputs(shape, device, dtype).transpose(0, 1)
        self.noise = Noise.of(torch.arange(shape.batch, device=device), SAMPLES)

    def _last(self, noise: Noise | None = None) -> Tensor:
        table = None if self.embedding is None else self.embedding.weight
        return self.layer.features(self.inputs, noise=noise, steps="last", embedding=table).squeeze(1)

    def work(self, task: Task) -> Callable[[], None]:
        """Return a training step, a forward pass, or ten samples in one pass."""
        modules: list[nn.Module] = [self.layer] if self.embedding is None else [self.layer, self.embedding]
        if task == "training":
            return training_step(self._last, modules)
        return without_gradients(self._last if task == "forward" else lambda: self._last(self.noise))


def _embedding(shape: Shape, device: str, dtype: torch.dtype) -> nn.Embedding | None:
    return nn.Embedding(shape.vocabulary, shape.features).to(device, dtype) if shape.vocabulary else None


def make_inputs(shape: Shape, device: str, dtype: torch.dtype) -> Tensor:
    """Return inputs, time first: normal features, or tokens with Zipf-distributed frequencies."""
    generator = torch.Generator().manual_seed(0)
    if not shape.vocabulary:
        x = torch.randn(shape.time, shape.batch, shape.features, generator=generator)
        return x.to(device, dtype)
    weight = 1 / torch.arange(1, shape.vocabulary + 1)
    tokens = torch.multinomial(weight, shape.time * shape.batch, replacement=True, generator=generator)
    return tokens.reshape(shape.time, shape.batch).to(device)


def training_step(last: Callable[[], Tensor], modules: list[nn.Module]) -> Callable[[], None]:
    """Return a training step on the last output, with new gradients and the backward pass in the calling thread."""

    def call() -> None:
        for module in modules:
            module.zero_grad(set_to_none=True)
        with torch.autograd.set_multithreading_enabled(False):
            last().sum().backward()

    return call


def without_gradients(last: Callable[[], Tensor]) -> Callable[[], None]:
    """Return a forward pass without gradients."""

    def call() -> None:
        with torch.no_grad():
            last()

    return call


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def _seconds(call: Callable[[], None], times: int, device: str) -> float:
    """Return the seconds per call over several consecutive calls."""
    _wait(device)
    began = time.perf_counter()
    for _ in range(times):
        call()
    _wait(device)
    return (time.perf_counter() - began) / times


def time_alternately(
    work: dict[str, Callable[[], None]], device: str, rounds: int, round_seconds: float
) -> dict[str, float]:
    """Return median milliseconds per call; calls alternate, so that a load peak does not affect only one of them."""
    times = {}
    for name, call in work.items():
        call()
        once = min(_seconds(call, 2, device) for _ in range(2))
        times[name] = max(1, math.ceil(round_seconds / once))
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, call in work.items():
            taken[name].append(_seconds(call, times[name], device))
    return {name: statistics.median(values) * 1e3 for name, values in taken.items()}


def _captured(call: Callable[[], None]) -> Callable[[], None]:
    """Capture a call as a CUDA graph, and return its replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def _memory(call: Callable[[], None]) -> int:
    """Return the peak of bytes allocated during a call, beyond weights and input."""
    call()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
