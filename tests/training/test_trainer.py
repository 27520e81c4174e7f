from __future__ import annotations

from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import DeepEnsemble, SequenceClassifier, SequenceRegressor, STTauGRU, STTauLSTM, predict
from sttau.data import load
from sttau.engine import Noise
from sttau.models import Gaussian
from sttau.training import Update, fit, focal_loss
from tests.training.small_runs import LAYERS, signs, trained, weights_of


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.slow
def test_every_mode_learns_to_remember_the_first_step(name: str) -> None:
    x, y, lengths = signs()
    model = SequenceClassifier(LAYERS[name](), 2)
    log = fit(model, x, y, lengths, updates=250, batch_size=32, learning_rate=0.02)
    assert sum(update.loss for update in log[-10:]) < 0.5 * sum(update.loss for update in log[:10])
    assert float((predict(model, x, lengths).label == y).float().mean()) > 0.9


@pytest.mark.parametrize("variance", [False, True])
@pytest.mark.slow
def test_a_regressor_learns_and_its_variance_head_finds_the_noise(variance: bool) -> None:
    x = torch.randn(512, 3, 1)
    y = x[:, -1, 0] + 0.5 * torch.randn(512)
    model = SequenceRegressor(STTauGRU(1, 16, 8, temperature=0.5), variance=variance)
    fit(model, x, y, updates=300, batch_size=64, learning_rate=0.02)
    p = predict(model, x, samples=20)
    assert float((p.mean[:, 0] - y).square().mean()) < 0.6 * float(y.var())
    if variance:
        assert 0.1 < float(p.aleatoric.mean()) < 0.6  # the noise has variance 0.25


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    x, y, lengths = signs()
    trained = []
    for seed in (1, 1, 2):
        torch.manual_seed(0)
        model = SequenceClassifier(STTauLSTM(2, 8, 3), 2)
        torch.manual_seed(99)  # the state of the global generator does not matter
        torch.rand(seed)
        fit(model, x, y, lengths, updates=5, batch_size=16, seed=seed)
        trained.append(weights_of(model))
    assert torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[0], trained[2])


def test_the_global_generator_and_the_training_flag_are_left_as_they_were() -> None:
    x, y, lengths = signs()
    model = SequenceClassifier(STTauLSTM(2, 8, 3), 2).eval()
    state = torch.get_rng_state()
    fit(model, x, y, lengths, updates=2)
    assert torch.equal(state, torch.get_rng_state())
    assert not model.training


def test_epochs_are_passes_over_the_data() -> None:
    x, y, lengths = signs(10)
    models = [SequenceClassifier(nn.GRU(2, 4), 2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    log = fit(models[0], x, y, lengths, epochs=2, batch_size=4, schedule="cosine")
    assert [update.of for update in log] == [6] * 6
    assert log == fit(models[1], x, y, lengths, updates=6, batch_size=4, schedule="cosine")
    with pytest.raises(ValueError, match="updates or epochs, not both"):
        fit(models[0], x, y, lengths, epochs=2, updates=6)


def test_the_loss_of_the_options_is_used_in_training_only() -> None:
    x, y, lengths = signs(16)
    model = DeepEnsemble.of(lambda: SequenceClassifier(nn.GRU(2, 4), 2), size=2)
    before = model.loss(x, y, lengths)
    usual = trained(model, x, y, lengths)
    assert torch.equal(trained(model, x, y, lengths, loss="cross-entropy")[0], usual[0])
    smoothed = trained(model, x, y, lengths, label_smoothing=0.3)
    assert not torch.equal(smoothed[0], usual[0])
    torch_own = nn.CrossEntropyLoss(label_smoothing=0.3, reduction="none")
    assert torch.equal(trained(model, x, y, lengths, loss=torch_own)[0], smoothed[0])
    focal = trained(model, x, y, lengths, loss="focal")
    assert torch.equal(trained(model, x, y, lengths, loss=partial(focal_loss, gamma=2))[0], focal[0])
    with torch.no_grad():
        expected = sum(float(torch_own(member(x, lengths), y).mean()) for member in model.members)
    assert smoothed[1][0] == pytest.approx(expected)
    with pytest.raises(ValueError, match="one value per row"):
        fit(model, x, y, lengths, loss=nn.CrossEntropyLoss())
    assert torch.equal(model.loss(x, y, lengths), before)
    assert all(member.criterion is None for member in model.members)


def test_a_regressor_takes_a_function_of_its_output() -> None:
    x, values = torch.randn(8, 3, 2), torch.randn(8, 2)

    def absolute(output: Gaussian, targets: Tensor) -> Tensor:
        return (output.mean - targets).abs().mean(1)

    model = SequenceRegressor(nn.GRU(2, 4), 2)
    _, losses = trained(model, x, values, loss=absolute)
    assert losses[0] == pytest.approx(float((model(x).mean.detach() - values).abs().mean()))
    for options, message in (
        ({"loss": "focal"}, "loss='focal' is for"),
        ({"label_smoothing": 0.1}, "label_smoothing is"),
        ({"class_weight": "balanced"}, "class_weight is for classifiers"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(model, x, values, **options)


class _OwnLoss(SequenceClassifier):
    def loss(self, inputs: Tensor, targets: Tensor, *args: Any, noise: Noise | None = None) -> Tensor:  # type: ignore[override]
        return super().loss(inputs, targets, *args, noise=noise) * 2


def test_a_loss_of_one_s_own_is_used_and_says_what_it_does_not_follow(caplog: pytest.LogCaptureFixture) -> None:
    x, y, lengths = signs(16)
    model, usual = _OwnLoss(nn.GRU(2, 4), 2), SequenceClassifier(nn.GRU(2, 4), 2)
    usual.load_state_dict(model.state_dict())
    assert trained(model, x, y, lengths)[1][0] == 2 * trained(usual, x, y, lengths)[1][0]
    with pytest.raises(ValueError, match=r"need a loss with an argument weights; _OwnLoss\.loss has none"):
        fit(model, x, y, lengths, class_weight="balanced")
    assert not caplog.records
    assert trained(model, x, y, lengths, loss="focal")[1][0] == 2 * trained(usual, x, y, lengths, loss="focal")[1][0]
    assert "no effect unless _OwnLoss.loss calls" in caplog.text


def test_data_sets_and_tuples_are_taken_as_data_and_validation() -> None:
    digits, held_out = load("digits", "train")[:64], load("digits", "validation")[:32]

    def train(*data: Any, validation: Any) -> tuple[Tensor, list[Update]]:
        torch.manual_seed(0)
        model = SequenceClassifier(nn.LSTM(8, 4), 10)
        log = fit(model, *data, validation=validation, updates=4, validate_every=2)
        return weights_of(model), log

    whole, log = train(digits, validation=held_out)
    assert log[-1].validation == log[-1].metrics["nll"]
    assert set(log[-1].metrics) == {"nll", "error"}
    arrays = (held_out.inputs, held_out.labels, held_out.lengths)
    assert torch.equal(whole, train(digits.inputs, digits.labels, digits.lengths, validation=arrays)[0])


def test_wrong_validation_data_is_refused_before_the_first_update() -> None:
    x, y, _ = signs()
    model, made = SequenceClassifier(nn.LSTM(2, 4), 2), list[Update]()
    for wrong, message in (
        ((x, y + 5), "validation: labels must be in 0 … 1"),
        ((x[:, :, :1], y), "validation: inputs have 1 features per step"),
        ((x,), "validation: targets are missing"),
        (x, "validation: targets are missing"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            fit(model, x, y, validation=wrong, callbacks=made.append)
    assert not made


def test_the_default_device_does_not_matter(tmp_path: Path) -> None:
    x, y, lengths = signs()
    first = SequenceClassifier(STTauLSTM(2, 8, 3, num_layers=2, dropout=0.3), 2)
    second = deepcopy(first)
    options: dict[str, Any] = {"validation": (x, y, lengths), "updates": 4, "validate_every": 2, "bucket_batches": 2}
    log = fit(first, x, y, lengths, folder=tmp_path / "first", **options)
    with torch.device("meta"):  # as torch.set_default_device
        assert fit(second, x, y, lengths, folder=tmp_path / "second", **options) == log
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
