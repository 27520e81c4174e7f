"""Forecast distributions of an automaton: mixtures of one Gaussian per state."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Categorical, MixtureSameFamily, Normal

from sttau_reproduction.power.mixture import StateMixture


@pytest.fixture
def mixture() -> StateMixture:
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(300, 6, generator=generator).double().softmax(1)
    mean = torch.randn(6, generator=generator).double()
    return StateMixture(weights, mean, 0.01 + torch.rand(6, generator=generator).double())


def test_points_are_quantiles_of_the_mixture(mixture: StateMixture) -> None:
    points = mixture.points(50)
    below = torch.special.ndtr((points[..., None] - mixture.mean) / mixture.variance.sqrt())
    reached = (mixture.weights * below).sum(-1)
    assert points.shape == (50, 300)
    assert torch.allclose(reached, (torch.arange(50).double()[:, None] + 0.5) / 50, atol=1e-6)


def test_the_likelihood_is_that_of_the_mixture(mixture: StateMixture) -> None:
    truth = torch.linspace(-2, 2, 300).double()
    parts = Normal(mixture.mean.expand(300, -1), mixture.variance.sqrt().expand(300, -1))
    wanted = MixtureSameFamily(Categorical(mixture.weights), parts).log_prob(truth)
    assert mixture.nll(truth) == pytest.approx(-float(wanted.mean()), rel=1e-12)
