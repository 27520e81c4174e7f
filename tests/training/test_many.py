"""Several trainings in one process: each as if it were alone."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import SequenceClassifier, STTauLSTM
from sttau.engine import Noise
from sttau.layers import BayesLSTM, VariationalDropoutLSTM
from sttau.models import focal_loss
from sttau.models.criterion import Criterion, make_criterion
from sttau.training import FitJob, FitResult, Interrupted, TrainOptions, Update, fit, fit_many
from sttau.training.batches import Batch
from sttau.training.checkpoints import newest_checkpoint
from sttau.training.log import JsonLines
from sttau.training.many import _ActiveGroup, _next_ready, _start
from sttau.training.stacking import stack_key, stacked_losses
from sttau.training.streams import StreamPool


def _task() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(40, 7, 3)
    return x, (x.sum((1, 2)) > 0).long(), torch.arange(40) % 6 + 2


def _model(seed: int, layer: Any = nn.LSTM) -> SequenceClassifier:
    torch.manual_seed(seed)
    return SequenceClassifier(layer(3, 8), 2, dropout=0.2)


def _weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_each_is_trained_as_if_alone() -> None:
    x, y, lengths = _task()
    made = []

    def jobs() -> Iterator[FitJob]:
        for seed in range(3):
            made.append(seed)
            options = TrainOptions(updates=12, batch_size=8, seed=seed, ema_decay=0.9)
            yield FitJob(_model(seed), x, y, lengths, options=options)

    for done in fit_many(jobs(), streams=2):
        assert done.error is None
        assert len(done.log) == 12
        assert done.seconds > 0
        alone = _model(done.number)
        log = fit(alone, x, y, lengths, updates=12, batch_size=8, seed=done.number, ema_decay=0.9)
        assert torch.equal(_weights(alone), _weights(done.job.model))
        assert log == done.log
    assert made == [0, 1, 2]


def test_a_failing_job_does_not_stop_the_others() -> None:
    x, y, lengths = _task()
    short = TrainOptions(updates=3)
    bad = torch.full_like(x, torch.nan)
    jobs = [FitJob(_model(0), inputs, y, lengths, options=short) for inputs in (x, bad, x)]
    jobs.append(FitJob(_model(0), x, y, lengths, options=TrainOptions(updates=3, metric="nll")))
    done = {item.number: item for item in fit_many(jobs)}
    assert [len(done[number].log) for number in range(4)] == [3, 0, 3, 0]
    assert "NaN" in str(done[1].error)
    assert "metric need validation data" in str(done[3].error)
    with pytest.raises(ValueError, match="streams must be at least 1"):
        next(fit_many([], streams=0))


def test_an_interrupted_run_resumes_and_ends_as_if_uninterrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, lengths = _task()

    def train(folder: Path, stop_at: int | None = None) -> dict[int, FitResult]:
        def interrupt(update: Update) -> None:
            if update.number == stop_at:
                signal.raise_signal(signal.SIGINT)

        def options(seed: int) -> TrainOptions:
            callbacks = interrupt if seed else ()
            place = folder / str(seed)
            return TrainOptions(updates=20, seed=seed, callbacks=callbacks, folder=place, checkpoint_every=5)

        jobs = [FitJob(_model(seed), x, y, lengths, options=options(seed)) for seed in range(3)]
        return {done.number: done for done in fit_many(jobs)}

    whole = train(tmp_path / "whole")
    logs: list[JsonLines] = []
    opened = JsonLines.__enter__
    monkeypatch.setattr(JsonLines, "__enter__", lambda log: logs.append(log) or opened(log))  # type: ignore[func-returns-value]
    with pytest.raises(Interrupted, match="after update 13 of 20"):
        train(tmp_path / "broken", stop_at=13)
    assert [log._file.closed for log in logs] == [True, True]
    again = train(tmp_path / "broken")
    for number in range(3):  # the first was done, the second had begun, the third had not
        assert again[number].error is None
        assert again[number].log == whole[number].log
        assert torch.equal(_weights(again[number].job.model), _weights(whole[number].job.model))


@pytest.mark.parametrize("read", [False, True])
def test_an_interrupted_group_saves_a_checkpoint_to_resume_from(read: bool, tmp_path: Path) -> None:
    x, y, lengths = _task()

    def model() -> SequenceClassifier:
        made = _model(0)
        made.dropout = 0.0  # what it draws, a turn sees to
        return made

    def job() -> FitJob:
        options = TrainOptions(updates=20, folder=tmp_path, checkpoint_every=20)
        return FitJob(model(), x, y, lengths, options=options)

    (started,), _ = _start([(0, job())])
    group = _ActiveGroup(started, lambda: False)
    assert group.step is not None
    for _ in range(7):
        group.step.update()
    if read:
        started[0].run.after_updates(lambda: False)
    group.save()
    started[0].stack.close()
    assert newest_checkpoint(tmp_path)["number"] == 7
    (done,) = fit_many([job()])
    alone = model()
    assert fit(alone, x, y, lengths, updates=20) == done.log
    assert torch.equal(_weights(alone), _weights(done.job.model))


_LAYERS = {"plain": nn.LSTM, "bayes": BayesLSTM, "dropout": partial(VariationalDropoutLSTM, dropout=0.3)}


@pytest.mark.parametrize("names", [("plain",) * 3, ("bayes",) * 3, ("plain", "dropout", "bayes")])
@pytest.mark.slow
def test_stacked_networks_have_the_losses_and_gradients_they_have_alone(names: tuple[str, ...]) -> None:
    x, y, lengths = _task()
    models = [_model(seed, _LAYERS[name]) for seed, name in enumerate(names)]
    for model in models:
        model.dropout = 0.0
        assert stack_key(model) == stack_key(models[0]) is not None
    batches = []
    for number in range(3):
        rows = torch.arange(8) + 8 * number
        noise = Noise(torch.tensor(number), torch.arange(8), torch.full((8,), 5))
        batches.append(Batch(x[rows], y[rows], lengths[rows], noise, 1.0))
    together = stacked_losses(models, batches, 40, [nullcontext] * 3, StreamPool(torch.device("cpu")))
    for model, batch, loss in zip(models, batches, together, strict=True):
        alone = model.loss(batch.inputs, batch.targets, batch.lengths, noise=batch.noise)
        penalty = model.penalty(40)
        alone = alone if penalty is None else alone + penalty
        torch.testing.assert_close(loss, alone)
        wanted = list(model.parameters())
        ours = torch.autograd.grad(loss, wanted, retain_graph=True)
        for mine, theirs in zip(ours, torch.autograd.grad(alone, wanted), strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)


def test_stacked_networks_have_their_own_criteria_and_weights() -> None:
    x, y, lengths = _task()
    models, batches = [_model(seed) for seed in range(3)], []
    for number, criterion in enumerate((None, Criterion(focal_loss), make_criterion(None, 0.1, "classification"))):
        models[number].dropout, models[number].criterion = 0.0, criterion
        rows = torch.arange(8) + 8 * number
        noise = Noise(torch.tensor(number), torch.arange(8), torch.full((8,), 5))
        batches.append(Batch(x[rows], y[rows], lengths[rows], noise, 1.0, torch.rand(8)))
    together = stacked_losses(models, batches, 40, [nullcontext] * 3, StreamPool(torch.device("cpu")))
    for model, batch, loss in zip(models, batches, together, strict=True):
        alone = model.loss(batch.inputs, batch.targets, batch.lengths, noise=batch.noise, weights=batch.weights)
        torch.testing.assert_close(loss, alone)
        assert not torch.allclose(loss, model.loss(batch.inputs, batch.targets, batch.lengths, noise=batch.noise))


def test_only_networks_of_one_shape_that_can_be_stacked_share_a_key() -> None:
    def key(layer: nn.Module, **options: Any) -> Any:
        return stack_key(SequenceClassifier(layer, 2, **options))

    assert key(nn.LSTM(3, 8)) == key(BayesLSTM(3, 8)) == key(VariationalDropoutLSTM(3, 8))
    assert key(nn.LSTM(3, 8)) != key(nn.LSTM(8, 8), embedding=nn.Embedding(5, 8))
    for layer in (nn.GRU(3, 8), nn.LSTM(3, 8, 2), nn.LSTM(3, 8, bidirectional=True), STTauLSTM(3, 8, 4)):
        assert key(layer) is None


def test_a_group_that_is_not_ready_is_passed_over() -> None:
    slow, fast, other = (SimpleNamespace(is_ready=ready) for ready in (False, True, True))
    active: Any = deque([slow, fast, other])
    taken: Any = _next_ready(active)
    assert taken is fast
    assert list(active) == [slow, other]


class _OwnLoss(SequenceClassifier):
    def loss(self, *args: Any, **kwargs: Any) -> Tensor:
        return 2 * super().loss(*args, **kwargs)


class _OwnLayer(VariationalDropoutLSTM):
    pass


class _OwnLSTM(nn.LSTM):
    pass


def test_a_subclass_which_may_have_its_own_loss_or_forward_is_not_stacked() -> None:
    assert stack_key(_OwnLoss(nn.LSTM(3, 8), 2)) is None
    assert stack_key(SequenceClassifier(_OwnLayer(3, 8), 2)) is None
    assert stack_key(SequenceClassifier(_OwnLSTM(3, 8), 2)) is None


def _hook(*_: Any) -> None: ...


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "loss", lambda *args, **kwargs: torch.zeros(())),
        lambda model: setattr(model.layer.rnn, "forward", lambda *args: args),
        lambda model: model.register_forward_hook(_hook),
        lambda model: model.layer.register_forward_pre_hook(_hook),
        lambda model: model.layer.rnn.register_full_backward_hook(_hook),
        lambda model: model.head.register_full_backward_pre_hook(_hook),
        lambda model: nn.utils.parametrizations.weight_norm(model.head),
        lambda model: nn.utils.parametrizations.weight_norm(model.layer.rnn, "weight_hh_l0"),
    ],
    ids=["loss", "forward", "hook", "pre-hook", "backward hook", "backward pre-hook", "head", "layer"],
)
def test_a_model_with_a_loss_hook_or_parametrization_of_its_own_is_not_stacked(change: Any) -> None:
    model = _model(0)
    assert stack_key(model) is not None
    change(model)
    assert stack_key(model) is None
