from __future__ import annotations

import pytest
import torch

from sttau.bench import Shape
from sttau_reproduction.speed.baselines import measure_baselines

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_baselines_are_timed() -> None:
    results = list(measure_baselines((Shape("lstm", 4, 10, 3, 16, 2),), "cuda", rounds=1, round_seconds=1e-3))
    assert [result.method for result in results] == ["lstm", "ensemble", "bayes", "dropout"]
    assert all(value > 0 for result in results for value in result.metrics.values())
    assert "training_one_graph_ms" in results[1].metrics
