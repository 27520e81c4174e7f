"""Comparing methods, and timing them, on a GPU."""

from __future__ import annotations

import math

import pytest
import torch

from sttau import compare
from sttau.bench import Shape
from sttau.compare import METHODS
from sttau_reproduction.speed.baselines import measure_baselines

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_every_method_is_trained_and_measured_on_the_gpu(cuda_graphs: bool) -> None:
    comparison = compare(
        list(METHODS), "digits", foreign=torch.rand(20, 8, 8), seeds=1, hidden_size=16, updates=40, validate_every=20,
        learning_rate=0.02, scaling=True, rounds=99, progress=False, cuda_graphs=cuda_graphs,
    )  # fmt: skip
    assert all(math.isfinite(row["value"]) for row in comparison.rows)
    for models in comparison.models.values():
        assert models[0].head.weight.is_cuda
    chance = math.log(10)
    for method in ("lstm", "gru", "ensemble", "dropout", "st-tau"):
        assert comparison.row(method, "nll")["value"] < chance - 0.1


def test_baselines_are_timed() -> None:
    results = list(measure_baselines((Shape("lstm", 4, 10, 3, 16, 2),), "cuda", rounds=1, round_seconds=1e-3))
    assert [result.method for result in results] == ["lstm", "ensemble", "bayes", "dropout"]
    assert all(value > 0 for result in results for value in result.metrics.values())
    assert "training_one_graph_ms" in results[1].metrics
