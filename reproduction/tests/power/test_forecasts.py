"""Forecast distributions of networks and their metrics."""

from __future__ import annotations

import math

import pytest
import torch

from sttau_reproduction.power.data import CENTRE, SCALE, to_power
from sttau_reproduction.power.evaluation import evaluate
from sttau_reproduction.power.forecasts import forecast_distribution, forecast_states
from sttau_reproduction.power.mixture import StateMixture


def test_metrics_of_a_log_normal_distribution_follow_its_formulas() -> None:
    """Mean, median, quantiles and density."""
    mean, variance = torch.full((1, 4000, 1), 0.5, dtype=torch.float64), torch.full((1, 4000, 1), 0.25).double()
    drawn = to_power(mean + 0.5 * torch.randn(mean.shape, dtype=torch.float64))[0, :, 0]
    answer = forecast_distribution(mean, variance, drawn)
    middle, deviation = CENTRE + 0.5 * SCALE, 0.5 * SCALE
    assert float(answer.mean[0]) == pytest.approx(math.exp(middle + deviation**2 / 2), rel=1e-6)
    found = evaluate(answer.points, answer.mean, drawn)
    assert found["width_95"] == pytest.approx(
        math.exp(middle + 1.95996 * deviation) - math.exp(middle - 1.95996 * deviation), rel=2e-3
    )
    for level in (50, 80, 95):
        assert abs(found[f"coverage_{level}"] - level) < 3
    assert answer.nll is not None
    exact = torch.distributions.LogNormal(middle, deviation)
    assert float(answer.nll.mean()) == pytest.approx(-float(exact.log_prob(drawn).mean()), rel=1e-4)
    assert answer.extra["aleatoric"] == pytest.approx(float(exact.variance.sqrt()), rel=1e-6)


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
    found = forecast_states(states, power_of)
    each = to_power(drawn).mean(1)
    torch.testing.assert_close(found.mean, each, rtol=0.02, atol=0)
    spread = found.extra["aleatoric"] ** 2 + found.extra["epistemic"] ** 2
    assert spread == pytest.approx(float(to_power(drawn).var(1).mean()), rel=0.1)
