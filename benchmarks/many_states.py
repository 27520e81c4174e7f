"""Exact inference of 16 to 128 states on a GPU, against cuDNN's GRU in the same run: speed, memory and accuracy.

    python benchmarks/many_states.py benchmarks/h200/many_states.jsonl

Inputs are tokens of a vocabulary of 5,000 with a Zipf distribution, or 256 features. Times are of CUDA graphs and of
eager calls. Accuracy is that of float32 against the reference in float64, over sequences of 2,956 steps.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from sttau import STTauGRU
from sttau.bench import Shape, _captured, _memory, _Ours, _Plain, time_alternately
from sttau.engine.backend import Engine, using
from sttau.jobs import Result, write_results

STATES = (16, 32, 64, 128)
SHAPES = tuple(Shape("gru", 32, 500, 256, 256, k, vocabulary, exact=True) for vocabulary in (5000, 0) for k in STATES)
LONGEST = 2956
ROUNDS, ROUND_SECONDS = 7, 0.05


def speed(shape: Shape) -> Iterator[Result]:
    """Time a training step and a forward pass of cuDNN's layer and of ours, and measure the memory of training."""
    began = time.perf_counter()
    torch.manual_seed(0)
    models = _Plain(shape, "cuda", torch.float32), _Ours(shape, "cuda", torch.float32)
    metrics: dict[str, dict[str, float]] = {model.name: {} for model in models}
    for task in ("training", "forward"):
        work = {model.name: model.work(task) for model in models}
        for method, value in time_alternately(work, "cuda", ROUNDS, ROUND_SECONDS).items():
            metrics[method][f"{task}_ms"] = value
        replays = {method: _captured(call) for method, call in work.items()}
        for method, value in time_alternately(replays, "cuda", ROUNDS, ROUND_SECONDS).items():
            metrics[method][f"{task}_graph_ms"] = value
        del replays
    for model in models:
        metrics[model.name]["training_mb"] = _memory(model.work("training")) / 2**20
    seconds = time.perf_counter() - began
    for method, values in metrics.items():
        yield Result("many-states", shape.name, method, shape.states, 0, values, asdict(shape), seconds)


def accuracy(states: int) -> Result:
    """Errors of the distribution of the state, and of the gradients of all weights relative to their largest value."""
    began = time.perf_counter()
    results: list[list[Tensor]] = []
    engines: tuple[tuple[Engine, torch.dtype], ...] = (("triton", torch.float32), ("reference", torch.float64))
    for engine, dtype in engines:
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        layer = STTauGRU(64, 256, states, mode="exact").to("cuda", dtype)
        x = torch.randn(2, LONGEST, 64, generator=generator).to("cuda", dtype)
        weight = torch.randn(2, LONGEST, states, generator=generator).to("cuda", dtype)
        with using(engine):
            pi = layer.state_distribution(x)
            learned = [p for name, p in layer.named_parameters() if "temperature" not in name]
            results.append([pi.detach(), *torch.autograd.grad((pi * weight).sum(), learned)])
    (found, *slopes), (expected, *true_slopes) = results
    pairs = zip(slopes, true_slopes, strict=True)
    metrics = {
        "value_error": float((found.double() - expected).abs().max()),
        "gradient_error": max(float((a.double() - b).abs().max() / b.abs().max()) for a, b in pairs),
    }
    settings = {"batch": 2, "time": LONGEST, "features": 64, "hidden": 256}
    seconds = time.perf_counter() - began
    return Result("many-states-accuracy", f"T{LONGEST}", "st-tau exact", states, 0, metrics, settings, seconds)


def main(path: Path) -> None:
    """Measure everything; the file is written after each measurement."""
    results: list[Result] = []
    for shape in SHAPES:
        results += speed(shape)
        plain, ours = (result.metrics for result in results[-2:])
        ratios = [f"{plain[key] / ours[key]:.2f}" for key in ("training_graph_ms", "forward_graph_ms", "training_mb")]
        print(shape.name, {key: round(value, 3) for key, value in ours.items()}, *ratios, flush=True)
        write_results(results, path)
    for states in STATES:
        results.append(accuracy(states))
        print(states, results[-1].metrics, flush=True)
        write_results(results, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
