from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import SequenceClassifier, STTauGRU
from sttau.engine import Noise
from sttau.errors import CheckpointError
from sttau.training import DivergedError, Update, fit, run, validation
from tests.training.small_runs import signs, weights_of


def test_every_sequence_is_seen_once_each_time_round() -> None:
    seen: list[int] = []

    class Watched(SequenceClassifier):
        def loss(  # type: ignore[override]
            self, inputs: Tensor, targets: Tensor, lengths: Tensor | None = None, *, noise: Noise | None = None
        ) -> Tensor:
            seen.extend(inputs[:, 0, 0].int().tolist())
            return super().loss(inputs, targets, lengths, noise=noise)

    x = torch.arange(10.0)[:, None, None].expand(10, 3, 1)
    fit(Watched(nn.GRU(1, 4), 2), x, torch.zeros(10, dtype=torch.int64), updates=6, batch_size=4)
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10] != seen[10:]


def test_the_log_reports_loss_and_temperature_and_can_end_training() -> None:
    x, y, lengths = signs()
    model = SequenceClassifier(STTauGRU(2, 8, 3, num_layers=2, temperature=2.0), 2)
    seen: list[Update] = []

    def watch(update: Update) -> bool:
        seen.append(update)
        return update.number == 3

    assert fit(model, x, y, lengths, updates=10, callbacks=watch) == seen
    assert [update.number for update in seen] == [1, 2, 3]
    assert seen[-1].of == 10
    assert len(seen[0].temperature) == 2
    assert fit(SequenceClassifier(nn.LSTM(2, 4), 2), x, y, updates=1)[0].temperature == ()


def test_a_gradient_that_is_no_number_is_named_with_its_update_and_parameter() -> None:
    x, y, _ = signs()
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    model.head.bias.register_hook(lambda gradient: gradient * float("inf"))
    message = r"gradient became inf at update 1 of 5; gradients that are not finite: head\.bias\."
    with pytest.raises(DivergedError, match=message):
        fit(model, x, y, updates=5)


def test_a_gradient_whose_norm_alone_overflows_is_limited_to_nothing() -> None:
    x, y, _ = signs()

    def exploding() -> SequenceClassifier:
        torch.manual_seed(0)
        model = SequenceClassifier(nn.LSTM(2, 4), 2)
        model.head.bias.register_hook(lambda gradient: gradient.sign() * 1e30)
        return model

    model = exploding()
    before = weights_of(model)
    log = fit(model, x, y, updates=3)
    assert [update.gradient_norm for update in log] == [float("inf")] * 3
    assert torch.equal(before, weights_of(model))
    with pytest.raises(DivergedError, match=r"became inf at update 1 of 3; gradients that are not finite: none alone"):
        fit(exploding(), x, y, updates=3, clip_norm=None)


def test_a_diverging_loss_stops_with_the_update_and_keeps_the_weights_before_it() -> None:
    x, y, _ = signs()
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    with torch.no_grad():
        model.head.bias[0] = float("nan")
    before = weights_of(model)
    with pytest.raises(FloatingPointError, match=r"loss became nan at update 1 of 5.*learning_rate"):
        fit(model, x, y, updates=5)
    assert torch.equal(before.nan_to_num(), weights_of(model).nan_to_num())


def test_losses_that_are_read_in_groups_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, which would wait at every reading."""
    x, y, lengths = signs()

    def train() -> tuple[Tensor, list[Update], list[int]]:
        torch.manual_seed(0)
        model, told = SequenceClassifier(STTauGRU(2, 4, 3), 2), list[int]()
        measure = validation(model, x, y, lengths, samples=1)
        log = fit(
            model, x, y, lengths, updates=33, validation=measure, metric="nll", validate_every=9,
            callbacks=lambda update: told.append(update.number),
        )  # fmt: skip
        return weights_of(model), log, told

    at_once = train()
    monkeypatch.setattr(run, "_UNREAD", {"cpu": 7})
    in_groups = train()
    assert torch.equal(at_once[0], in_groups[0])
    assert at_once[1:] == in_groups[1:]
    assert at_once[2] == list(range(1, 34))


def test_weights_that_an_endless_gradient_has_spoilt_are_found_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though neither the loss nor a later gradient knows of them: nobody has read that word since."""
    monkeypatch.setattr(run, "_UNREAD", {"cpu": 5})
    model = SequenceClassifier(nn.LSTM(3, 4), 2, embedding=nn.Embedding(6, 3))
    factors = iter([float("inf")])

    def spoil(gradient: Tensor) -> Tensor:
        return torch.cat([gradient[:-1], torch.full_like(gradient[-1:], next(factors, 0.0))])

    assert model.embedding is not None
    model.embedding.weight.register_hook(spoil)
    tokens = torch.randint(1, 5, (32, 7), generator=torch.Generator().manual_seed(0))
    with pytest.raises(DivergedError, match=r"inf at update 1 of 20; gradients that are not finite: embedding\.weight"):
        fit(model, tokens, tokens[:, 0] % 2, updates=20)


def test_a_loss_that_is_found_spoilt_later_names_the_first_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_UNREAD", {"cpu": 5})
    x, y, _ = signs()
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    with torch.no_grad():
        model.head.bias[0] = float("nan")
    with pytest.raises(DivergedError, match=r"nan at update 1 of 20;.* 5 updates have been made with it"):
        fit(model, x, y, updates=20)


def test_a_run_is_not_resumed_with_other_validation_data_or_weights_of_the_loss(tmp_path: Path) -> None:
    """Regression: neither was noticed, and the results of the first run were returned."""
    x, y = torch.randn(40, 4, 2), torch.arange(40) % 2

    def train(validation: Any, **options: Any) -> list[Update]:
        torch.manual_seed(0)
        model = SequenceClassifier(nn.LSTM(2, 4), 2)
        return fit(model, x[:20], y[:20], validation=validation, updates=4, folder=tmp_path, **options)

    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]), reduction="none")
    log = train((x[20:], y[20:]), loss=loss)
    assert train((x[20:], y[20:]), loss=loss) == log
    with pytest.raises(CheckpointError, match="validation data was 20 sequences"):
        train((x[20:], 1 - y[20:]), loss=loss)
    other = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0]), reduction="none")
    with pytest.raises(CheckpointError, match="loss was CrossEntropyLoss"):
        train((x[20:], y[20:]), loss=other)
