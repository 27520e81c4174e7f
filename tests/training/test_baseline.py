from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import sttau
from sttau import SequenceClassifier, SequenceRegressor
from sttau.training.baseline import baselines


def noise(count: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 4, 1, generator=generator), torch.arange(count) % 2


def test_baselines_are_those_of_the_training_data() -> None:
    found = baselines(torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0], [4.0]]))
    assert found["mse"] == pytest.approx(2.0)
    assert found["nll"] == pytest.approx(0.5 * torch.log(torch.tensor(2 * torch.pi)).item() + 1.0)
    assert baselines(torch.tensor([0, 0, 1]), torch.tensor([2]))["error"] == 1


def test_a_run_that_has_not_learned_says_so() -> None:
    x, y = noise()
    model = SequenceClassifier(nn.LSTM(1, 8), 2)
    with pytest.warns(UserWarning, match="the model has not learned: its best validation nll"):
        sttau.fit(model, x[:40], y[:40], validation=(x[40:], 1 - y[40:]), updates=40, validate_every=40, patience=None,
                  learning_rate=0.05)  # fmt: skip
    regressor = SequenceRegressor(nn.LSTM(1, 8))
    with pytest.warns(UserWarning, match="mean and variance of the targets"):
        sttau.fit(regressor, x[:40], 100 * y[:40].float(), validation=(x[40:], 100 * y[40:].float()), updates=2,
                  validate_every=1)  # fmt: skip


def test_a_run_that_has_learned_does_not_warn() -> None:
    x, _ = noise()
    y = (x.sum((1, 2)) > 0).long()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sttau.fit(SequenceClassifier(nn.LSTM(1, 8), 2), x, y, validation=(x, y), updates=60, validate_every=20,
                  learning_rate=0.02)  # fmt: skip
