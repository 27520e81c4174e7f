from __future__ import annotations

from pathlib import Path

import pytest
import torch

from reproduction.tests.classification.small_networks import cells, generated_reviews
from sttau.jobs import Result
from sttau_reproduction.classification.cells import Work, run

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_all_networks_are_trained_and_evaluated_in_one_process(tmp_path: Path) -> None:
    every = cells("lstm", "bayes", "dropout", "st-tau-classes", "ensemble", seeds=2)
    outcome = run(every, tmp_path, device="cuda")
    assert not outcome.failures, outcome.failures[0][1]
    assert len(outcome.results) == 9
    assert all(result.metrics["train_seconds"] > 0 for result in outcome.results if result.seed == 0)


def test_reviews_of_many_lengths_are_read(tmp_path: Path) -> None:
    with generated_reviews():
        every = cells("lstm", "dropout", "st-tau-classes", data="imdb")
        found = [result for _, result in Work(tmp_path, "cuda")(every, tmp_path)]
    for result in found:
        assert isinstance(result, Result), result
        assert "customer_max_probability_auroc" in result.metrics
