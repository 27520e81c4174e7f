"""What must hold of training on a GPU. Skipped where there is none; TF32 is off, as everywhere here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import DeepEnsemble, SequenceClassifier, STTauGRU, STTauLSTM
from sttau.models import Predictor
from sttau.training import FitJob, Interrupted, TrainOptions, Update, fit, fit_many, validation
from sttau.training.batches import Batch, Data, Order
from sttau.training.gradients import Gradients

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "soft": lambda: STTauLSTM(3, 32, 5),
    "exact": lambda: STTauGRU(3, 32, 5, mode="exact"),
    "deep": lambda: STTauGRU(3, 32, 5, num_layers=2, bidirectional=True),
    "plain": lambda: nn.LSTM(3, 32),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def _data() -> tuple[Tensor, Tensor, Tensor]:
    x, lengths = torch.randn(100, 40, 3), torch.randint(1, 41, (100,))
    return x, (x[torch.arange(100), lengths - 1, 0] > 0).long(), lengths


def _trained(name: str, **options: Any) -> tuple[Predictor, list[Update]]:
    torch.manual_seed(0)
    x, y, lengths = _data()
    model = SequenceClassifier(LAYERS[name](), 2).cuda()
    options = {"updates": 60, "batch_size": 16, "learning_rate": 0.01, "bucket_batches": 3} | options
    return model, fit(model, x, y, lengths, **options)


def _weights(model: Predictor) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def _batch(order: Order, data: Data, update: int) -> Batch:
    rows = order.rows(update)
    places, number = torch.arange(len(rows), device="cuda"), torch.tensor([update], device="cuda")
    return data.batch(rows.cuda(), places, 1.0, number, data.end(rows, few_shapes=True))


@every_layer
def test_training_with_graphs_goes_as_without(name: str, caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {"schedule": "cosine", "warmup": 5, "ema_decay": 0.9}
    _, without = _trained(name, **options)
    _, with_graphs = _trained(name, cuda_graphs=True, **options)
    assert "cannot be captured" not in caplog.text
    for ours, theirs in zip(with_graphs, without, strict=True):
        assert ours.loss == pytest.approx(theirs.loss, rel=2e-2, abs=2e-3)  # rounding grows from update to update


@pytest.mark.parametrize("loss", [{"label_smoothing": 0.1}, {"loss": "focal"}])
@pytest.mark.parametrize("name", ["soft", "plain"])
def test_weights_and_losses_are_captured(name: str, loss: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    options = {"class_weight": [1.0, 3.0], "sample_weight": torch.linspace(0, 1, 100), **loss}
    _, without = _trained(name, **options)
    _, with_graphs = _trained(name, cuda_graphs=True, **options)
    assert "CUDA graphs" not in caplog.text
    for ours, theirs in zip(with_graphs, without, strict=True):
        assert ours.loss == pytest.approx(theirs.loss, rel=2e-2, abs=2e-3)


def test_a_scheduler_is_stepped_without_graphs(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = partial(torch.optim.lr_scheduler.StepLR, step_size=20)
    _trained("soft", cuda_graphs=True, scheduler=scheduler)
    assert "cuda_graphs has no effect with a scheduler" in caplog.text


def test_what_cannot_be_captured_runs_step_by_step_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    x, y, lengths = _data()
    model = SequenceClassifier(nn.LSTM(3, 32, bidirectional=True), 2).cuda()  # packs, which asks the GPU for lengths
    with caplog.at_level(logging.WARNING):
        log = fit(model, x, y, lengths, updates=60, batch_size=50, learning_rate=0.01, cuda_graphs=True)
    assert caplog.text.count("training runs without CUDA graphs") == 1
    assert log[-1].loss < log[0].loss


def test_dropout_differs_from_replay_to_replay() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(32, 10, 3), torch.randint(2, (32,))
    model = SequenceClassifier(nn.LSTM(3, 32, num_layers=2, dropout=0.5), 2).cuda()
    options: dict[str, Any] = {"optimizer": torch.optim.SGD, "learning_rate": 1e-12, "batch_size": 32}
    log = fit(model, x, y, updates=12, cuda_graphs=True, **options)
    assert len({update.loss for update in log[4:]}) > 4


@every_layer
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_mixed_precision_learns(name: str, precision: str, cuda_graphs: bool) -> None:
    model, log = _trained(name, precision=precision, cuda_graphs=cuda_graphs, updates=150)
    assert sum(update.loss for update in log[-10:]) < 0.9 * sum(update.loss for update in log[:10])
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_a_run_that_was_left_goes_on_as_if_nothing_had_happened(tmp_path: Path, cuda_graphs: bool) -> None:
    def leave(update: Update) -> None:
        if update.number == 30:
            raise Interrupted

    options: dict[str, Any] = {"cuda_graphs": cuda_graphs, "folder": tmp_path, "checkpoint_every": 10}
    with pytest.raises(Interrupted):
        _trained("soft", callbacks=leave, **options)
    resumed, log = _trained("soft", **options)
    whole, _ = _trained("soft", cuda_graphs=cuda_graphs)
    assert len(log) == 60
    torch.testing.assert_close(_weights(resumed), _weights(whole), rtol=1e-2, atol=1e-3)


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")  # the sum was made on another stream
@pytest.mark.parametrize("name", ["soft", "plain"])
def test_members_on_streams_of_their_own_have_the_gradient_of_the_sum(name: str) -> None:
    """Batch after batch of all lengths."""
    torch.manual_seed(0)
    device = torch.device("cuda")
    x, y, lengths = _data()
    model = DeepEnsemble.of(lambda: SequenceClassifier(LAYERS[name](), 2), 4).to(device).train()
    parameters = list(model.parameters())
    order, data = Order(100, 16, 0, lengths, 3), Data.on(device, x, y, lengths, seed=1)
    eager = Gradients(model, parameters, torch.amp.GradScaler("cuda", enabled=False), "float32", 100, 1)
    for update in range(1, 80):
        batch = _batch(order, data, update)
        loss = model.loss(batch.inputs, batch.targets, batch.lengths, noise=batch.noise)
        want = torch.autograd.grad(loss, parameters)
        got = eager(batch)
        torch.testing.assert_close(got.loss, loss.detach(), rtol=1e-4, atol=1e-5)
        for ours, theirs in zip(got.values, want, strict=True):
            assert ours is not None
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
    assert eager.pool is not None
    assert len(eager.pool.streams) == 4


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_an_ensemble_learns_with_graphs_as_without(precision: str, caplog: pytest.LogCaptureFixture) -> None:
    x, y, lengths = _data()
    logs = []
    for cuda_graphs in (False, True):
        model = DeepEnsemble.of(lambda: SequenceClassifier(LAYERS["soft"](), 2), 3).cuda()
        options: dict[str, Any] = {"batch_size": 16, "learning_rate": 0.01, "precision": precision}
        logs.append(fit(model, x, y, lengths, updates=60, cuda_graphs=cuda_graphs, **options))
    for ours, theirs in zip(*logs, strict=True):
        assert ours.loss == pytest.approx(theirs.loss, rel=5e-2, abs=2e-2)
    assert "cannot be captured" not in caplog.text


@pytest.mark.parametrize("names", [("plain",) * 3, ("soft", "plain", "soft", "plain", "plain"), ("soft",) * 3])
def test_trainings_beside_each_other_go_as_alone(names: tuple[str, ...]) -> None:
    """On streams of their own, and stacked where they are LSTMs; each with its own order, noise and dropout."""
    x, y, lengths = (tensor.cuda() for tensor in _data())
    options = TrainOptions(
        updates=60, batch_size=16, learning_rate=0.01, cuda_graphs=True, bucket_batches=3, ema_decay=0.9, metric="nll"
    )

    def job(number: int) -> FitJob:
        torch.manual_seed(number)
        model = SequenceClassifier(LAYERS[names[number]](), 2, dropout=0.2).cuda()
        return FitJob(model, x, y, lengths, validation(model, x, y, lengths), options.with_changes(seed=number))

    done = {item.number: item for item in fit_many(map(job, range(len(names))), streams=2)}
    for number in range(len(names)):
        assert done[number].error is None
        alone = job(number)
        log = fit(alone.model, x, y, lengths, validation=alone.validation, options=alone.options)
        assert len(done[number].log) == len(log) == 60
        for ours, theirs in zip(done[number].log, log, strict=True):
            assert ours.loss == pytest.approx(theirs.loss, rel=5e-2, abs=5e-3)  # rounding grows from update to update
