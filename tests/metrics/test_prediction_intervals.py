from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from sttau.metrics import (
    central_interval,
    interval_coverage,
    pit_histogram,
    pit_values,
    quantile,
)
from tests.metrics.data import mixture


@pytest.mark.parametrize("samples", [1, 2, 6])
def test_central_intervals_leave_equal_tails(samples: int) -> None:
    mean, variance, _ = mixture(3, samples, 20, 2)
    for level in (0.1, 0.9, 0.999):
        low, high = central_interval(mean, variance, level)
        distribution = stats.norm(mean.numpy(), variance.sqrt().numpy())
        assert np.allclose(distribution.cdf(low.numpy()).mean(0), (1 - level) / 2, atol=1e-12)
        assert np.allclose(distribution.cdf(high.numpy()).mean(0), (1 + level) / 2, atol=1e-12)


@pytest.mark.parametrize("samples", [1, 6])
def test_a_quantile_has_its_share_of_probability_below(samples: int) -> None:
    mean, variance, _ = mixture(5, samples, 20, 2)
    for share in (0.01, 0.5, 0.8):
        at = quantile(mean, variance, share).numpy()
        assert np.allclose(stats.norm(mean.numpy(), variance.sqrt().numpy()).cdf(at).mean(0), share, atol=1e-12)
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        quantile(mean, variance, 1.0)


def test_the_interval_of_one_gaussian_is_scipys() -> None:
    low, high = central_interval([1.0], [4.0], 0.95)
    assert (low.item(), high.item()) == pytest.approx(stats.norm(1, 2).interval(0.95), abs=1e-12)


@pytest.mark.parametrize("samples", [1, 3])
def test_coverage_of_the_true_distribution_is_nominal_and_its_pit_is_uniform(samples: int) -> None:
    mean, variance, _ = mixture(4, samples, 20_000)
    generator = torch.Generator().manual_seed(9)
    run = torch.randint(samples, (1, 20_000, 1), generator=generator)
    noise = torch.randn(20_000, 1, generator=generator, dtype=torch.float64)
    y = mean.gather(0, run)[0] + variance.gather(0, run)[0].sqrt() * noise
    answer = interval_coverage(mean, variance, y)
    assert answer.coverage.tolist() == pytest.approx(answer.level.tolist(), abs=0.012)
    assert bool((answer.width.diff() > 0).all())
    values = pit_values(mean, variance, y)
    assert stats.kstest(values.flatten().numpy(), "uniform").pvalue > 0.01
    assert pit_histogram(values).density.tolist() == pytest.approx([1] * 10, abs=0.1)


def test_a_forecast_that_is_overconfident_covers_less_and_has_its_pit_at_the_ends() -> None:
    y = torch.randn(5000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    answer = interval_coverage(torch.zeros(5000), torch.full((5000,), 0.25), y, levels=[0.9])
    assert answer.coverage.item() == pytest.approx(2 * stats.norm.cdf(stats.norm.ppf(0.95) / 2) - 1, abs=0.02)
    assert answer.width.item() == pytest.approx(stats.norm.ppf(0.95))
    density = pit_histogram(pit_values(torch.zeros(5000), torch.full((5000,), 0.25), y)).density
    assert density[0] > 1.8
    assert density[5] < 0.8
