from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

import sttau
from sttau.serve.batching import Batcher, Job
from tests.serve.conftest import make_language_model, make_regressor, make_series_model


@pytest.fixture
def model() -> sttau.SequenceClassifier:
    return make_series_model()


def _jobs(model: Any, count: int, samples: int = 5) -> list[Job]:
    chance = torch.Generator().manual_seed(0)
    jobs = []
    for _ in range(count):
        rows, time = (int(torch.randint(1, 6, (), generator=chance)) for _ in range(2))
        x = torch.randn(rows, time, 2, generator=chance)
        jobs.append(Job(model, x, torch.randint(1, time + 1, (rows,), generator=chance), samples))
    return jobs


class Held(Batcher):
    """A batcher whose thread waits until all requests are there, so that they are computed together."""

    def __init__(self, work: int) -> None:
        self.gate = threading.Event()
        super().__init__(work)

    def _take(self) -> Any:
        self._changed.release()
        self.gate.wait()
        self._changed.acquire()
        return super()._take()


@pytest.mark.parametrize("work", [1, 40, 1 << 16])
def test_answers_have_the_same_bits_whatever_is_computed_with_them(model: sttau.SequenceClassifier, work: int) -> None:
    jobs = _jobs(model, 20)
    batcher = Held(work)
    futures = [batcher.submit(job) for job in jobs]
    batcher.gate.set()
    together = [future.result(30) for future in futures]
    batches = batcher.batches
    batcher.close()
    for job, found in zip(jobs, together, strict=True):
        alone = sttau.predict(model, job.inputs, job.lengths, samples=5)
        assert torch.equal(found.mean, alone.mean)
        assert torch.equal(found.total, alone.total)
    assert batches == 1 if work > 100 else batches > 3


def test_requests_whose_bits_could_change_are_computed_alone(model: sttau.SequenceClassifier) -> None:
    x, lengths = torch.zeros(2, 3, 2), torch.tensor([3, 3])
    assert Job(model, x, lengths, samples=4).key is not None
    assert Job(model, x, lengths, samples=3).key is None
    assert Job(model, x, lengths, samples=4, per_step=True).key is None
    assert Job(model, x, lengths, samples=4, mode="deterministic").key is None
    assert Job(make_regressor(), x, lengths).key is None
    assert Job(make_language_model(), x[..., 0].long(), lengths).key is None
    assert Job(model.double(), x, lengths).key is None


def test_a_small_request_is_answered_before_a_large_one_that_came_first(model: sttau.SequenceClassifier) -> None:
    batcher = Held(200)
    large = batcher.submit(Job(model, torch.randn(400, 5, 2), torch.full((400,), 5), samples=10))
    small = batcher.submit(Job(model, torch.randn(1, 5, 2), torch.tensor([5]), samples=10))
    small.add_done_callback(lambda _: order.append(large.done()))
    order: list[bool] = []
    batcher.gate.set()
    assert len(large.result(60)) == 400
    assert order == [False]
    batcher.close()


def test_a_request_that_is_canceled_is_not_computed(model: sttau.SequenceClassifier) -> None:
    batcher = Held(1 << 16)
    first = batcher.submit(Job(model, torch.randn(1, 5, 2), torch.tensor([5])))
    second = batcher.submit(Job(model, torch.randn(1, 5, 2), torch.tensor([5])))
    assert first.cancel()
    batcher.gate.set()
    second.result(30)
    assert batcher.sequences == 1
    batcher.close()


def test_an_error_reaches_whoever_asked_and_the_thread_goes_on(model: sttau.SequenceClassifier) -> None:
    batcher = Batcher()
    bad = batcher.submit(Job(model, torch.zeros(1, 2, 7), torch.tensor([2])))
    with pytest.raises(ValueError, match="features"):
        bad.result(30)
    assert len(batcher.submit(Job(model, torch.zeros(1, 2, 2), torch.tensor([2]))).result(30)) == 1
    batcher.close()
    with pytest.raises(RuntimeError, match="shutting down"):
        batcher.submit(Job(model, torch.zeros(1, 2, 2), torch.tensor([2])))
