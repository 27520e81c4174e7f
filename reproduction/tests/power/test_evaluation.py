from __future__ import annotations

import math

import pytest
import torch

from sttau_reproduction.power.data import CENTRE, SCALE, to_power
from sttau_reproduction.power.evaluation import evaluate
from sttau_reproduction.power.work import forecast_distribution


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
    exact = torch.distributions.LogNormal(middle, deviation)
    assert answer.extra["nll"] == pytest.approx(-float(exact.log_prob(drawn).mean()), rel=1e-4)
    assert answer.extra["aleatoric"] == pytest.approx(float(exact.variance.sqrt()), rel=1e-6)
