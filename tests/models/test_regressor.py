"""Exact training of a regressor: the likelihood of a mixture over its states."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from sttau import SequenceRegressor, STTauGRU
from sttau.models import TargetScaling
from tests.models.small_models import DOUBLE, batch_for, bold, close, path_sum


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
def test_exact_loss_is_the_likelihood_of_the_mixture_over_states(outputs: int, scaled: bool) -> None:
    torch.manual_seed(0)
    x, lengths, y = (
        torch.randn(5, 4, 3).double(),
        torch.tensor([4, 1, 3, 2, 4]),
        3 + 2 * torch.randn(5, outputs).double(),
    )
    scaling = TargetScaling.fitted(y) if scaled else None
    model = SequenceRegressor(STTauGRU(3, 6, 4, mode="exact"), outputs, variance=True, target_scaling=scaling).double()
    pi, (mean, variance) = model.state_distributions(x, lengths, per_step=False), model.state_outputs()
    assert variance is not None
    parts = Independent(Normal(mean.expand(5, -1, -1), variance.sqrt().expand(5, -1, -1)), 1)
    found = -MixtureSameFamily(Categorical(pi), parts).log_prob(y) / outputs
    if scaling is not None:  # the loss is that of standardized targets
        found = found - scaling.scale.log().mean()
    torch.testing.assert_close(model.loss(x, y, lengths), found.mean())
    weights = torch.tensor([1.0, 0.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(model.loss(x, y, lengths, weights=weights), (weights * found).mean())


def test_exact_training_finds_two_levels_that_one_gaussian_cannot_tell() -> None:
    torch.manual_seed(0)
    model = SequenceRegressor(STTauGRU(1, 8, 2, mode="exact"), 1, variance=True)
    x, y = torch.zeros(64, 1, 1), torch.where(torch.arange(64) % 2 == 0, 2.0, -2.0)[:, None]
    y = y + 0.1 * torch.randn(64, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        model.loss(x, y).backward()
        optimizer.step()
    assert model.state_outputs().mean.sort(0).values.flatten().tolist() == pytest.approx([-2, 2], abs=0.2)
    assert model.loss(x, y) < 0.5  # one Gaussian of variance 4 has 2.1


# -- shapes and what the head reads --------------------------------------------------------------------------


def test_every_state_has_an_answer() -> None:
    model = bold(SequenceRegressor(STTauGRU(2, 4, 3), 2, variance=True))
    mean, variance = model.state_outputs()
    raw = model.head(model.layer.states)
    assert variance is not None
    close(mean, raw[:, :2])
    close(variance, torch.log1p(raw[:, 2:].exp()) + 1e-6)


# -- exact mode ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [False, True], ids=["mean only", "variance head"])
def test_exact_answers_of_a_regressor_are_moments_over_all_paths(variance: bool) -> None:
    model = bold(SequenceRegressor(STTauGRU(2, 4, 3, mode="exact"), 2, variance=variance))
    x, lengths = batch_for(tokens=False), [4, 2, 1]
    answer = model(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        read = x[row, :length]
        mean = path_sum(model, read, lambda h: model.head(h)[:2])
        close(answer.mean[row], mean)
        if variance:
            second = path_sum(
                model, read, lambda h: model.head(h)[:2] ** 2 + torch.log1p(model.head(h)[2:].exp()) + 1e-6
            )
            close(answer.variance[row], second - mean**2)
        else:
            assert answer.variance is None


# -- losses --------------------------------------------------------------------------------------------------


def test_the_regressor_s_loss_is_squared_error() -> None:
    model, x = bold(SequenceRegressor(nn.GRU(2, 4), 2)), batch_for(tokens=False)
    targets, lengths = torch.randn(3, 2, dtype=DOUBLE), torch.tensor([4, 2, 1])
    close(model.loss(x, targets, lengths), (model(x, lengths).mean - targets).square().sum() / 6)


def test_the_regressor_s_loss_with_a_variance_is_the_gaussian_likelihood() -> None:
    model, x = bold(SequenceRegressor(nn.GRU(2, 4), 2, variance=True)), batch_for(tokens=False)
    targets, lengths = torch.randn(3, 2, dtype=DOUBLE), torch.tensor([4, 2, 1])
    mean, variance = model(x, lengths)
    bell = (2 * math.pi * variance).rsqrt() * (-(targets - mean).square() / (2 * variance)).exp()
    close(model.loss(x, targets, lengths), -bell.log().mean())
