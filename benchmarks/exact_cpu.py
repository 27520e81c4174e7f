"""Exact inference on a CPU against nn.GRU: training step and forward pass of a classifier, as ratios in one run.

    OMP_NUM_THREADS=1 python benchmarks/exact_cpu.py benchmarks/exact/cpu.jsonl

The matrices of tokens are computed once per distinct token of a batch, so the ratio depends on how many there are: a
formal language (4 symbols), characters (100), and words drawn from a vocabulary of 5,000 with a Zipf distribution.

Times are those of the processor, so that other work on the machine is not counted, and each turn is several calls in a
row: a call of less than a millisecond takes two to three times as long where others have just had its caches.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sttau
from sttau.engine.backend import Engine, using
from sttau.jobs import Result, write_results

BATCH, TIME, HIDDEN, STATES = 32, 200, 64, 10
ROUNDS, CALLS = 11, 5
SEED = 0


def draw_tokens(vocabulary: int) -> Tensor:
    """Return (batch, time) tokens; words of a large vocabulary have a Zipf distribution."""
    generator = torch.Generator().manual_seed(SEED)
    weights = 1 / torch.arange(1.0, vocabulary + 1) if vocabulary > 1000 else torch.ones(vocabulary)
    return torch.multinomial(weights, BATCH * TIME, True, generator=generator).view(BATCH, TIME)


def make(layer: nn.Module, vocabulary: int | None) -> sttau.SequenceClassifier:
    """Return a classifier of tokens, or of features."""
    embedding = None if vocabulary is None else nn.Embedding(vocabulary, HIDDEN)
    return sttau.SequenceClassifier(layer, 2, embedding=embedding)


def measure(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median milliseconds of a call of each, measured in turns."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for number in range(ROUNDS + 1):
        for name, call in work.items():
            start = time.process_time()
            for _ in range(CALLS):
                call()
            if number > 0:
                times[name].append(1000 * (time.process_time() - start) / CALLS)
    return {name: statistics.median(values) for name, values in times.items()}


def step(model: sttau.SequenceClassifier, x: Tensor, y: Tensor, train: bool, engine: Engine) -> Callable[[], object]:
    """Return a training step, or a forward pass, of a model on an engine."""

    def call() -> object:
        with using(engine), torch.set_grad_enabled(train):
            loss = F.cross_entropy(model(x), y)
            if train:
                model.zero_grad()
                loss.backward()
        return loss

    return call


def main(path: Path) -> None:
    """Measure all inputs and write one line for each."""
    results = []
    for vocabulary in (4, 100, 5000, None):
        torch.manual_seed(SEED)
        x = torch.randn(BATCH, TIME, HIDDEN) if vocabulary is None else draw_tokens(vocabulary)
        y = torch.randint(0, 2, (BATCH,))
        gru = make(nn.GRU(HIDDEN, HIDDEN, batch_first=True), vocabulary)
        exact = make(sttau.STTauGRU(HIDDEN, HIDDEN, STATES, batch_first=True, mode="exact"), vocabulary)
        start = time.perf_counter()
        metrics: dict[str, float] = {}
        for task, train in (("training", True), ("forward", False)):
            found = measure(
                {
                    "gru": step(gru, x, y, train, "reference"),
                    "exact": step(exact, x, y, train, "cpu"),
                    "reference": step(exact, x, y, train, "reference"),
                }
            )
            metrics |= {f"{task}_{name}_ms": value for name, value in found.items()}
            metrics[f"{task}_speedup"] = found["gru"] / found["exact"]
            metrics[f"{task}_speedup_over_reference"] = found["reference"] / found["exact"]
        distinct = BATCH * TIME if vocabulary is None else len(x.unique())
        settings = {"batch": BATCH, "time": TIME, "hidden": HIDDEN, "vocabulary": vocabulary, "distinct": distinct}
        data = "features" if vocabulary is None else f"{vocabulary} tokens"
        results.append(
            Result(
                "exact-cpu", data, "st-tau", STATES, SEED, metrics, settings | {"threads": torch.get_num_threads()},
                seconds=time.perf_counter() - start,
            )
        )  # fmt: skip
        print(data, distinct, {name: round(value, 2) for name, value in metrics.items() if "speedup" in name})
    write_results(results, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
