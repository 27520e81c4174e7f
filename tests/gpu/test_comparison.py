"""Comparing methods on a GPU."""

from __future__ import annotations

import math

import pytest
import torch

from sttau import compare
from sttau.comparison import METHODS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_every_method_is_trained_and_measured_on_the_gpu(cuda_graphs: bool) -> None:
    comparison = compare(
        list(METHODS), "digits", ood=torch.rand(20, 8, 8), seeds=1, hidden_size=16, updates=40, validate_every=20,
        learning_rate=0.02, scaling=True, rounds=99, progress=False, cuda_graphs=cuda_graphs,
    )  # fmt: skip
    assert all(math.isfinite(row["value"]) for row in comparison.rows)
    for models in comparison.models.values():
        assert models[0].device.type == "cuda"
    chance = math.log(10)
    for method in ("lstm", "gru", "ensemble", "dropout", "st-tau"):
        assert comparison.row(method, "nll")["value"] < chance - 0.1
