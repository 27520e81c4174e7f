from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from sttau.metrics import (
    gaussian_crps,
    gaussian_nll,
    sample_crps,
)
from sttau.metrics.crps import sample_crps_terms
from tests.metrics.data import mixture


def _quadrature(cdf: Callable[[float], float], y: float) -> float:
    """∫ (F(x) - [x ≥ y])² dx, integrated numerically on either side of y."""
    below = integrate.quad(lambda x: cdf(x) ** 2, -25, y, limit=400, epsabs=1e-11)[0]
    above = integrate.quad(lambda x: (1 - cdf(x)) ** 2, y, 25, limit=400, epsabs=1e-11)[0]
    return float(below + above)


@pytest.mark.parametrize("samples", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_crps_of_gaussians_and_mixtures_is_the_integral(samples: int, seed: int) -> None:
    mean, variance, y = mixture(seed, samples, 1)
    distribution = stats.norm(mean[:, 0, 0].numpy(), variance[:, 0, 0].sqrt().numpy())
    want = _quadrature(lambda x: float(distribution.cdf(x).mean()), float(y))
    assert gaussian_crps(mean, variance, y) == pytest.approx(want, abs=1e-7)


def test_crps_of_a_gaussian_is_the_published_formula() -> None:
    mean, variance, y = (part[0] if part.dim() == 3 else part for part in mixture(0, 1, 50, 2))
    s = variance.sqrt()
    z = ((y - mean) / s).numpy()
    want = s.numpy() * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / math.sqrt(math.pi))
    assert gaussian_crps(mean, variance, y) == pytest.approx(want.mean(), abs=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 4))
def test_sample_crps_is_the_sum_over_pairs(seed: int, samples: int, size: int) -> None:
    x, _, y = mixture(seed, samples, size)
    plain, fair = 0.0, 0.0
    for i in range(size):
        draws, target = x[:, i, 0].tolist(), y[i].item()
        distance = sum(abs(d - target) for d in draws) / samples
        pairs = sum(abs(d - e) for d in draws for e in draws)
        plain += (distance - pairs / (2 * samples**2)) / size
        fair += (distance - pairs / (2 * samples * max(1, samples - 1))) / size
    assert sample_crps(x, y, fair=False) == pytest.approx(plain, abs=1e-12)
    assert plain >= -1e-12
    if samples > 1:
        assert sample_crps(x, y) == pytest.approx(fair, abs=1e-12)


def test_terms_are_the_scores_of_single_predictions() -> None:
    x, _, y = mixture(0, 7, 20)
    single = [sample_crps(x[:, [place]], y[[place]], fair=False) for place in range(20)]
    assert sample_crps_terms(x, y, fair=False).flatten().tolist() == pytest.approx(single, abs=1e-12)


def test_sample_crps_is_the_mixture_without_variance() -> None:
    x, _, y = mixture(0, 7, 20, 2)
    assert sample_crps(x, y, fair=False) == pytest.approx(gaussian_crps(x, torch.zeros(()), y), abs=1e-12)


def test_the_fair_score_has_no_bias_and_the_plain_one_has() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.zeros(200_000, dtype=torch.float64)
    x = torch.randn(3, 200_000, generator=generator, dtype=torch.float64)
    truth = gaussian_crps([0.0], [1.0], [0.0])
    assert sample_crps(x, y) == pytest.approx(truth, abs=0.005)
    assert sample_crps(x, y, fair=False) == pytest.approx(truth + 1 / (math.sqrt(math.pi) * 3), abs=0.005)


def test_a_large_offset_costs_no_accuracy() -> None:
    x, v, y = mixture(0, 4, 10)
    assert sample_crps(x + 1e6, y + 1e6) == pytest.approx(sample_crps(x, y), abs=1e-8)
    assert gaussian_crps(x + 1e6, v, y + 1e6) == pytest.approx(gaussian_crps(x, v, y), abs=1e-8)


@pytest.mark.parametrize("score", [gaussian_crps, gaussian_nll])
def test_scores_are_proper_the_true_distribution_wins_on_a_grid(score: Callable[..., float]) -> None:
    y = torch.as_tensor(stats.norm(1, 2).ppf((np.arange(4000) + 0.5) / 4000))
    values = {
        (m, s): score(torch.full_like(y, m), torch.full_like(y, s**2), y)
        for m in (0.0, 0.5, 1.0, 1.5, 2.0)
        for s in (1.0, 1.5, 2.0, 2.5, 3.0)
    }
    assert min(values, key=lambda key: values[key]) == (1.0, 2.0)


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 10))
def test_crps_is_not_negative_and_scales_with_its_unit(seed: int, samples: int, size: int) -> None:
    mean, variance, y = mixture(seed, samples, size)
    value = gaussian_crps(mean, variance, y)
    assert value >= 0
    assert gaussian_crps(3 * mean, 9 * variance, 3 * y) == pytest.approx(3 * value)


def test_crps_without_variance_is_the_absolute_error() -> None:
    assert gaussian_crps([1.0, 2.0], [0.0, 0.0], [1.5, 2.0]) == pytest.approx(0.25)
    assert gaussian_crps([1.0], [1e-18], [1.5]) == pytest.approx(0.5)
