from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import SequenceClassifier, SequenceRegressor, STTauGRU, STTauLSTM, predict
from sttau.engine import Noise
from sttau.models import Layer, SequenceModel
from sttau.training import Update, fit


def _signs(count: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """Sequences whose label is the sign of their first step: something to remember."""
    x = torch.randn(count, 3, 2)
    return x, (x[:, 0, 0] > 0).long(), torch.randint(1, 4, (count,))


LAYERS: dict[str, Callable[[], Layer]] = {
    "lstm": lambda: nn.LSTM(2, 16),
    "soft": lambda: STTauLSTM(2, 16, 4),
    "straight_through": lambda: STTauGRU(2, 16, 4, mode="straight_through"),
    "exact": lambda: STTauGRU(2, 16, 4, mode="exact"),
    "deterministic": lambda: STTauGRU(2, 16, 4, mode="deterministic"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_mode_learns_to_remember_the_first_step(name: str) -> None:
    x, y, lengths = _signs()
    model = SequenceClassifier(LAYERS[name](), 2)
    log = fit(model, x, y, lengths, updates=250, batch_size=32, learning_rate=0.02)
    assert sum(update.loss for update in log[-10:]) < 0.5 * sum(update.loss for update in log[:10])
    assert float((predict(model, x, lengths).label == y).float().mean()) > 0.9


@pytest.mark.parametrize("variance", [False, True])
def test_a_regressor_learns_and_its_variance_head_finds_the_noise(variance: bool) -> None:
    x = torch.randn(512, 3, 1)
    y = x[:, -1, 0] + 0.5 * torch.randn(512)
    model = SequenceRegressor(STTauGRU(1, 16, 8, temperature=0.5), variance=variance)
    fit(model, x, y, updates=300, batch_size=64, learning_rate=0.02)
    p = predict(model, x, samples=20)
    assert float((p.mean[:, 0] - y).square().mean()) < 0.6 * float(y.var())
    if variance:
        assert 0.1 < float(p.aleatoric.mean()) < 0.6  # the noise has variance 0.25


def _weights(model: SequenceModel) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    x, y, lengths = _signs()
    trained = []
    for seed in (1, 1, 2):
        torch.manual_seed(0)
        model = SequenceClassifier(STTauLSTM(2, 8, 3), 2)
        torch.manual_seed(99)  # the state of the global generator does not matter
        torch.rand(seed)
        fit(model, x, y, lengths, updates=5, batch_size=16, seed=seed)
        trained.append(_weights(model))
    assert torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[0], trained[2])


def test_the_global_generator_and_the_training_flag_are_left_as_they_were() -> None:
    x, y, lengths = _signs()
    model = SequenceClassifier(STTauLSTM(2, 8, 3), 2).eval()
    state = torch.get_rng_state()
    fit(model, x, y, lengths, updates=2)
    assert torch.equal(state, torch.get_rng_state())
    assert not model.training


def test_every_sequence_is_seen_once_each_time_round() -> None:
    seen: list[int] = []

    class Watched(SequenceClassifier):
        def loss(
            self, inputs: Tensor, targets: Tensor, lengths: Tensor | None = None, *, noise: Noise | None = None
        ) -> Tensor:
            seen.extend(inputs[:, 0, 0].int().tolist())
            return super().loss(inputs, targets, lengths, noise=noise)

    x = torch.arange(10.0)[:, None, None].expand(10, 3, 1)
    fit(Watched(nn.GRU(1, 4), 2), x, torch.zeros(10, dtype=torch.int64), updates=6, batch_size=4)
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10] != seen[10:]


def test_the_log_reports_loss_and_temperature_and_can_end_training() -> None:
    x, y, lengths = _signs()
    model = SequenceClassifier(STTauGRU(2, 8, 3, num_layers=2, temperature=2.0), 2)
    seen: list[Update] = []

    def watch(update: Update) -> bool:
        seen.append(update)
        return update.number == 3

    assert fit(model, x, y, lengths, updates=10, on_update=watch) == seen
    assert [update.number for update in seen] == [1, 2, 3]
    assert seen[-1].of == 10
    assert len(seen[0].temperature) == 2
    assert fit(SequenceClassifier(nn.LSTM(2, 4), 2), x, y, updates=1)[0].temperature == ()


def test_the_weights_with_the_smallest_validation_value_are_kept() -> None:
    x, y, lengths = _signs()
    model = SequenceClassifier(STTauGRU(2, 8, 3), 2)
    values, weights = iter([3.0, 1.0, 2.0, 1.0]), []

    def validate() -> float:
        weights.append(_weights(model))
        return next(values)

    log = fit(model, x, y, lengths, updates=7, validate=validate, validate_every=2)
    assert [update.validation for update in log] == [None, 3.0, None, 1.0, None, 2.0, 1.0]
    assert torch.equal(_weights(model), weights[1])


def test_a_diverging_loss_stops_with_the_update_and_keeps_the_weights_before_it() -> None:
    x, y, _ = _signs()
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    with torch.no_grad():
        model.head.bias[0] = float("nan")
    before = _weights(model)
    with pytest.raises(FloatingPointError, match=r"loss became nan at update 1 of 5.*learning_rate"):
        fit(model, x, y, updates=5)
    assert torch.equal(before.nan_to_num(), _weights(model).nan_to_num())


def test_bad_arguments_are_refused_by_name() -> None:
    x, y, lengths = _signs(8)
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"updates": 0}, "updates must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"validate_every": 0}, "validate_every must be at least 1"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            fit(model, x, y, lengths, **options)
    with pytest.raises(ValueError, match="labels must be in 0 … 1"):
        fit(model, x, y + 5)
    with pytest.raises(ValueError, match="lengths must be at least 1"):
        fit(model, x, y, lengths * 0)
    with pytest.raises(ValueError, match="inputs hold NaN"):
        fit(model, x * float("nan"), y)
    with pytest.raises(TypeError, match="targets must be of a floating type"):
        fit(SequenceRegressor(nn.LSTM(2, 4)), x, y)
