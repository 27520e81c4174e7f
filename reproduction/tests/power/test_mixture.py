"""Forecast distributions of an automaton: mixtures of one Gaussian per state."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Categorical, MixtureSameFamily, Normal

from sttau_reproduction.power import work as power
from sttau_reproduction.power.data import to_power
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


def test_a_mixture_over_states_is_the_distribution_that_is_sampled_from_it() -> None:
    torch.manual_seed(0)
    weights = torch.rand(6, 3).double()
    mean, variance = torch.tensor([[-1.0, 0.0, 2.0], [0.5, 0.1, 1.0]]).double()
    states = StateMixture(weights / weights.sum(1, keepdim=True), mean, variance)
    state = torch.multinomial(states.weights, 200_000, replacement=True)
    drawn = states.mean[state] + states.variance[state].sqrt() * torch.randn(state.shape).double()
    points = states.points(100)
    assert bool((points.diff(dim=0) > 0).all())
    for hour in range(6):
        share = (drawn[hour] < points[:, hour, None]).double().mean(1)
        assert float((share - (torch.arange(100) + 0.5) / 100).abs().max()) < 0.005
    power_of = to_power(points.median(0).values)
    found = power.forecast_states(states, power_of)
    each = to_power(drawn).mean(1)
    torch.testing.assert_close(found.mean, each, rtol=0.02, atol=0)
    spread = found.extra["aleatoric"] ** 2 + found.extra["epistemic"] ** 2
    assert spread == pytest.approx(float(to_power(drawn).var(1).mean()), rel=0.1)
