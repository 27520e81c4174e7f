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
from sttau.training import Finished, Interrupted, Job, Update, fit, fit_together
from sttau.training.batches import Batch
from sttau.training.checkpoint import newest_checkpoint
from sttau.training.lanes import Lanes
from sttau.training.stacking import alike, losses
from sttau.training.together import _begin, _Playing, _take_next


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

    def jobs() -> Iterator[Job]:
        for seed in range(3):
            made.append(seed)
            yield Job(_model(seed), x, y, lengths, {"updates": 12, "batch_size": 8, "seed": seed, "average": 0.9})

    for done in fit_together(jobs(), at_once=2):
        assert done.error is None
        assert len(done.log) == 12
        assert done.seconds > 0
        alone = _model(done.number)
        log = fit(alone, x, y, lengths, updates=12, batch_size=8, seed=done.number, average=0.9)
        assert torch.equal(_weights(alone), _weights(done.job.model))
        assert log == done.log
    assert made == [0, 1, 2]


def test_one_that_fails_does_not_stop_the_others() -> None:
    x, y, lengths = _task()
    options: list[dict[str, Any]] = [{"updates": 3}, {"updates": 0}, {"updates": 3, "color": "red"}, {"updates": 3}]
    bad = torch.full_like(x, torch.nan)
    jobs = [Job(_model(0), x, y, lengths, given) for given in options]
    jobs.append(Job(_model(0), bad, y, lengths, {"updates": 3}))
    done = {item.number: item for item in fit_together(jobs)}
    assert [len(done[number].log) for number in range(4)] == [3, 0, 0, 3]
    assert "updates must be at least 1" in str(done[1].error)
    assert "color" in str(done[2].error)
    assert done[4].error is not None
    with pytest.raises(ValueError, match="at_once must be at least 1"):
        next(fit_together([], at_once=0))


def test_what_was_interrupted_goes_on_and_ends_as_if_left_alone(tmp_path: Path) -> None:
    x, y, lengths = _task()

    def train(folder: Path, stop_at: int | None = None) -> dict[int, Finished]:
        def interrupt(update: Update) -> None:
            if update.number == stop_at:
                signal.raise_signal(signal.SIGINT)

        def options(seed: int) -> dict[str, Any]:
            places = {"folder": folder / str(seed), "checkpoint_every": 5}
            return {"updates": 20, "seed": seed, "callbacks": interrupt if seed else (), **places}

        jobs = [Job(_model(seed), x, y, lengths, options(seed)) for seed in range(3)]
        return {done.number: done for done in fit_together(jobs)}

    whole = train(tmp_path / "whole")
    with pytest.raises(Interrupted, match="after update 13 of 20"):
        train(tmp_path / "broken", stop_at=13)
    again = train(tmp_path / "broken")
    for number in range(3):  # the first was done, the second had begun, the third had not
        assert again[number].error is None
        assert again[number].log == whole[number].log
        assert torch.equal(_weights(again[number].job.model), _weights(whole[number].job.model))


@pytest.mark.parametrize("heard", [False, True])
def test_a_team_that_is_left_keeps_a_checkpoint_to_go_on_from(heard: bool, tmp_path: Path) -> None:
    x, y, lengths = _task()

    def model() -> SequenceClassifier:
        made = _model(0)
        made.dropout = 0.0  # what it draws, a turn sees to
        return made

    def job() -> Job:
        return Job(model(), x, y, lengths, {"updates": 20, "folder": tmp_path, "checkpoint_every": 20})

    (begun,), _ = _begin([(0, job())])
    playing = _Playing(begun, lambda: False)
    assert playing.team is not None
    for _ in range(7):
        playing.team.update()
    if heard:
        begun[0].run.look_after(lambda: False)
    playing.leave()
    begun[0].stack.close()
    assert newest_checkpoint(tmp_path)["number"] == 7
    (done,) = fit_together([job()])
    alone = model()
    assert fit(alone, x, y, lengths, updates=20) == done.log
    assert torch.equal(_weights(alone), _weights(done.job.model))


_LAYERS = {"plain": nn.LSTM, "bayes": BayesLSTM, "dropout": partial(VariationalDropoutLSTM, dropout=0.3)}


@pytest.mark.parametrize("names", [("plain",) * 3, ("bayes",) * 3, ("plain", "dropout", "bayes")])
def test_stacked_networks_have_the_losses_and_gradients_they_have_alone(names: tuple[str, ...]) -> None:
    x, y, lengths = _task()
    models = [_model(seed, _LAYERS[name]) for seed, name in enumerate(names)]
    for model in models:
        model.dropout = 0.0
        assert alike(model) == alike(models[0]) is not None
    batches = []
    for number in range(3):
        rows = torch.arange(8) + 8 * number
        noise = Noise(torch.tensor(number), torch.arange(8), torch.full((8,), 5))
        batches.append(Batch(x[rows], y[rows], lengths[rows], noise, 1.0))
    together = losses(models, batches, 40, [nullcontext] * 3, Lanes(torch.device("cpu")))
    for model, batch, loss in zip(models, batches, together, strict=True):
        alone = model.loss(batch.inputs, batch.targets, batch.lengths, noise=batch.noise)
        penalty = model.penalty(40)
        alone = alone if penalty is None else alone + penalty
        torch.testing.assert_close(loss, alone)
        wanted = list(model.parameters())
        ours = torch.autograd.grad(loss, wanted, retain_graph=True)
        for mine, theirs in zip(ours, torch.autograd.grad(alone, wanted), strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)


def test_only_networks_that_can_be_stacked_are_alike() -> None:
    def key(layer: nn.Module, **options: Any) -> Any:
        return alike(SequenceClassifier(layer, 2, **options))  # type: ignore[arg-type]

    assert key(nn.LSTM(3, 8)) == key(BayesLSTM(3, 8)) == key(VariationalDropoutLSTM(3, 8))
    assert key(nn.LSTM(3, 8)) != key(nn.LSTM(8, 8), embedding=nn.Embedding(5, 8))
    for layer in (nn.GRU(3, 8), nn.LSTM(3, 8, 2), nn.LSTM(3, 8, bidirectional=True), STTauLSTM(3, 8, 4)):
        assert key(layer) is None


def test_a_team_that_is_not_ready_is_passed_over() -> None:
    slow, fast, other = (SimpleNamespace(is_ready=ready) for ready in (False, True, True))
    playing: Any = deque([slow, fast, other])
    taken: Any = _take_next(playing)
    assert taken is fast
    assert list(playing) == [slow, other]
