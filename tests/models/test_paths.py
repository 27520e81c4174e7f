"""Training on the mixture of several runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, SequenceRegressor, STTauLSTM, load
from sttau.engine import Noise
from sttau.metrics import gaussian_nll
from sttau.training import fit


def test_the_loss_is_the_likelihood_of_the_mixture_over_paths() -> None:
    model = SequenceRegressor(STTauLSTM(2, 6, 3), variance=True, paths=4)
    x, y = torch.randn(5, 7, 2), torch.randn(5, 1)
    noise = Noise.of(torch.arange(5), samples=4, seed=3)
    with torch.no_grad():
        mean, variance = model(x, noise=noise)
        loss = float(model.loss(x, y, noise=Noise.of(torch.arange(5), seed=3)))
    assert variance is not None
    expected = gaussian_nll(mean.view(4, 5, 1), variance.view(4, 5, 1), y)
    assert loss == pytest.approx(expected, rel=1e-5)


def test_a_model_is_trained_on_paths() -> None:
    x = torch.randn(64, 3, 1)
    model = SequenceRegressor(STTauLSTM(1, 8, 4), variance=True, paths=3)
    log = fit(model, x, x.sum((1, 2)), updates=60, learning_rate=0.02)
    assert sum(update.loss for update in log[-5:]) < sum(update.loss for update in log[:5])


def test_paths_are_saved_and_checked(tmp_path: Path) -> None:
    model = SequenceRegressor(STTauLSTM(2, 6, 3), variance=True, paths=4)
    assert load(model.save(tmp_path / "m.safetensors")).paths == 4
    with pytest.raises(ValueError, match="paths must be at least 1, got 0"):
        SequenceRegressor(nn.LSTM(2, 6), paths=0)
    for layer, variance in ((nn.LSTM(2, 6), True), (STTauLSTM(2, 6, 3), False)):
        with pytest.raises(ValueError, match="paths needs variance=True and a layer that samples"):
            SequenceRegressor(layer, variance=variance, paths=2)


def test_a_classifier_is_judged_by_the_mean_probability_of_its_paths(tmp_path: Path) -> None:
    model = SequenceClassifier(STTauLSTM(2, 6, 3), 3, paths=4)
    x, y = torch.randn(5, 7, 2), torch.tensor([0, 1, 2, 1, 0])
    with torch.no_grad():
        mean = model(x, noise=Noise.of(torch.arange(5), samples=4, seed=3)).softmax(-1).view(4, 5, 3).mean(0)
        loss = float(model.loss(x, y, noise=Noise.of(torch.arange(5), seed=3)))
    assert loss == pytest.approx(float(-mean.gather(1, y[:, None]).log().mean()), rel=1e-5)
    assert load(model.save(tmp_path / "m.safetensors")).paths == 4
    with pytest.raises(ValueError, match="paths needs a layer that samples"):
        SequenceClassifier(nn.LSTM(2, 6), 3, paths=2)
