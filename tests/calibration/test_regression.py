from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats  # type: ignore[import-untyped]
from torch import Tensor

import sttau
from sttau.metrics import (
    central_interval,
    gaussian_crps,
    gaussian_nll,
    interval_coverage,
    mean_squared_error,
    pit_histogram,
    pit_values,
    quantile,
    sample_crps,
)


def _mixture(seed: int, runs: int, size: int, outputs: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mean = 2 * torch.randn(runs, size, outputs, generator=generator, dtype=torch.float64)
    variance = torch.rand(runs, size, outputs, generator=generator, dtype=torch.float64) + 0.05
    return mean, variance, 2 * torch.randn(size, outputs, generator=generator, dtype=torch.float64)


def _quadrature(cdf: Callable[[float], float], y: float) -> float:
    """∫ (F(x) - [x ≥ y])² dx, integrated numerically on either side of y."""
    below = integrate.quad(lambda x: cdf(x) ** 2, -25, y, limit=400, epsabs=1e-11)[0]
    above = integrate.quad(lambda x: (1 - cdf(x)) ** 2, y, 25, limit=400, epsabs=1e-11)[0]
    return float(below + above)


@pytest.mark.parametrize("runs", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_crps_of_gaussians_and_mixtures_is_the_integral(runs: int, seed: int) -> None:
    mean, variance, y = _mixture(seed, runs, 1)
    law = stats.norm(mean[:, 0, 0].numpy(), variance[:, 0, 0].sqrt().numpy())
    want = _quadrature(lambda x: float(law.cdf(x).mean()), float(y))
    assert gaussian_crps(mean, variance, y) == pytest.approx(want, abs=1e-7)


def test_crps_of_a_gaussian_is_the_published_formula() -> None:
    mean, variance, y = (part[0] if part.dim() == 3 else part for part in _mixture(0, 1, 50, 2))
    s = variance.sqrt()
    z = ((y - mean) / s).numpy()
    want = s.numpy() * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / math.sqrt(math.pi))
    assert gaussian_crps(mean, variance, y) == pytest.approx(want.mean(), abs=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 4))
def test_sample_crps_is_the_sum_over_pairs(seed: int, runs: int, size: int) -> None:
    x, _, y = _mixture(seed, runs, size)
    plain, fair = 0.0, 0.0
    for i in range(size):
        draws, target = x[:, i, 0].tolist(), y[i].item()
        distance = sum(abs(d - target) for d in draws) / runs
        pairs = sum(abs(d - e) for d in draws for e in draws)
        plain += (distance - pairs / (2 * runs**2)) / size
        fair += (distance - pairs / (2 * runs * max(1, runs - 1))) / size
    assert sample_crps(x, y, fair=False) == pytest.approx(plain, abs=1e-12)
    assert plain >= -1e-12
    if runs > 1:
        assert sample_crps(x, y) == pytest.approx(fair, abs=1e-12)


def test_sample_crps_is_the_mixture_without_variance() -> None:
    x, _, y = _mixture(0, 7, 20, 2)
    assert sample_crps(x, y, fair=False) == pytest.approx(gaussian_crps(x, torch.zeros(()), y), abs=1e-12)


def test_the_fair_score_has_no_bias_and_the_plain_one_has() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.zeros(200_000, dtype=torch.float64)
    x = torch.randn(3, 200_000, generator=generator, dtype=torch.float64)
    truth = gaussian_crps([0.0], [1.0], [0.0])
    assert sample_crps(x, y) == pytest.approx(truth, abs=0.005)
    assert sample_crps(x, y, fair=False) == pytest.approx(truth + 1 / (math.sqrt(math.pi) * 3), abs=0.005)


def test_a_large_offset_costs_no_accuracy() -> None:
    x, v, y = _mixture(0, 4, 10)
    assert sample_crps(x + 1e6, y + 1e6) == pytest.approx(sample_crps(x, y), abs=1e-8)
    assert gaussian_crps(x + 1e6, v, y + 1e6) == pytest.approx(gaussian_crps(x, v, y), abs=1e-8)


@pytest.mark.parametrize("score", [gaussian_crps, gaussian_nll])
def test_scores_are_proper_the_true_law_wins_on_a_grid(score: Callable[..., float]) -> None:
    y = torch.as_tensor(stats.norm(1, 2).ppf((np.arange(4000) + 0.5) / 4000))
    values = {
        (m, s): score(torch.full_like(y, m), torch.full_like(y, s**2), y)
        for m in (0.0, 0.5, 1.0, 1.5, 2.0)
        for s in (1.0, 1.5, 2.0, 2.5, 3.0)
    }
    assert min(values, key=lambda key: values[key]) == (1.0, 2.0)


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 10))
def test_crps_is_not_negative_and_scales_with_its_unit(seed: int, runs: int, size: int) -> None:
    mean, variance, y = _mixture(seed, runs, size)
    value = gaussian_crps(mean, variance, y)
    assert value >= 0
    assert gaussian_crps(3 * mean, 9 * variance, 3 * y) == pytest.approx(3 * value)


def test_crps_without_variance_is_the_absolute_error() -> None:
    assert gaussian_crps([1.0, 2.0], [0.0, 0.0], [1.5, 2.0]) == pytest.approx(0.25)
    assert gaussian_crps([1.0], [1e-18], [1.5]) == pytest.approx(0.5)


@pytest.mark.parametrize("runs", [1, 4])
def test_likelihood_equals_scipy(runs: int) -> None:
    mean, variance, y = _mixture(1, runs, 30, 2)
    density = stats.norm(mean.numpy(), variance.sqrt().numpy()).pdf(y.numpy()).mean(0)
    assert gaussian_nll(mean, variance, y) == pytest.approx(-np.log(density).mean(), abs=1e-10)


def test_likelihood_of_far_targets_stays_finite_for_a_mixture() -> None:
    assert gaussian_nll(torch.zeros(3, 1, 1), torch.ones(3, 1, 1), [100.0]) == pytest.approx(
        5000 + math.log(2 * math.pi) / 2
    )


def test_squared_error_averages_runs_first() -> None:
    x, _, y = _mixture(2, 5, 20, 3)
    assert mean_squared_error(x, y) == pytest.approx(((x.numpy().mean(0) - y.numpy()) ** 2).mean())
    assert mean_squared_error([1.0, 3.0], [1.0, 1.0]) == 2


@pytest.mark.parametrize("runs", [1, 2, 6])
def test_central_intervals_leave_equal_tails(runs: int) -> None:
    mean, variance, _ = _mixture(3, runs, 20, 2)
    for level in (0.1, 0.9, 0.999):
        low, high = central_interval(mean, variance, level)
        law = stats.norm(mean.numpy(), variance.sqrt().numpy())
        assert np.allclose(law.cdf(low.numpy()).mean(0), (1 - level) / 2, atol=1e-12)
        assert np.allclose(law.cdf(high.numpy()).mean(0), (1 + level) / 2, atol=1e-12)


@pytest.mark.parametrize("runs", [1, 6])
def test_a_quantile_has_its_share_of_probability_below(runs: int) -> None:
    mean, variance, _ = _mixture(5, runs, 20, 2)
    for share in (0.01, 0.5, 0.8):
        at = quantile(mean, variance, share).numpy()
        assert np.allclose(stats.norm(mean.numpy(), variance.sqrt().numpy()).cdf(at).mean(0), share, atol=1e-12)
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        quantile(mean, variance, 1.0)


def test_the_interval_of_one_gaussian_is_scipys() -> None:
    low, high = central_interval([1.0], [4.0], 0.95)
    assert (low.item(), high.item()) == pytest.approx(stats.norm(1, 2).interval(0.95), abs=1e-12)


@pytest.mark.parametrize("runs", [1, 3])
def test_coverage_of_the_true_law_is_nominal_and_its_pit_is_uniform(runs: int) -> None:
    mean, variance, _ = _mixture(4, runs, 20_000)
    generator = torch.Generator().manual_seed(9)
    run = torch.randint(runs, (1, 20_000, 1), generator=generator)
    noise = torch.randn(20_000, 1, generator=generator, dtype=torch.float64)
    y = mean.gather(0, run)[0] + variance.gather(0, run)[0].sqrt() * noise
    answer = interval_coverage(mean, variance, y)
    assert answer.coverage.tolist() == pytest.approx(answer.level.tolist(), abs=0.012)
    assert bool((answer.width.diff() > 0).all())
    values = pit_values(mean, variance, y)
    assert stats.kstest(values.flatten().numpy(), "uniform").pvalue > 0.01
    assert pit_histogram(values).density.tolist() == pytest.approx([1] * 10, abs=0.1)


def test_a_forecast_that_is_too_sure_covers_less_and_has_its_pit_at_the_ends() -> None:
    y = torch.randn(5000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    answer = interval_coverage(torch.zeros(5000), torch.full((5000,), 0.25), y, levels=[0.9])
    assert answer.coverage.item() == pytest.approx(2 * stats.norm.cdf(stats.norm.ppf(0.95) / 2) - 1, abs=0.02)
    assert answer.width.item() == pytest.approx(stats.norm.ppf(0.95))
    density = pit_histogram(pit_values(torch.zeros(5000), torch.full((5000,), 0.25), y)).density
    assert density[0] > 1.8
    assert density[5] < 0.8


def test_pit_is_the_cdf_and_halves_a_hit_without_variance() -> None:
    mean, variance, y = _mixture(5, 3, 10)
    want = stats.norm(mean.numpy(), variance.sqrt().numpy()).cdf(y.numpy()).mean(0)
    assert np.allclose(pit_values(mean, variance, y), want, atol=1e-12)
    assert pit_values([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.5, 1.0, 2.0])[:, 0].tolist() == [0, 0.5, 1]


def test_the_pit_histogram_holds_upper_edges_and_both_ends() -> None:
    histogram = pit_histogram([0.0, 0.1, 0.2, 0.100001, 1.0])
    assert histogram.count.tolist() == [2, 2, 0, 0, 0, 0, 0, 0, 0, 1]
    assert histogram.density.mean() == pytest.approx(1)
    assert histogram.edges.tolist() == [n / 10 for n in range(11)]


@pytest.mark.parametrize("variance", [False, True])
def test_what_predict_returns_can_be_handed_in(variance: bool) -> None:
    x, y = torch.randn(12, 6, 2), torch.randn(12)
    model = sttau.SequenceRegressor(sttau.STTauGRU(2, 8, num_states=4), variance=variance)
    r = sttau.predict(model, x, samples=8, keep_samples=True)
    assert gaussian_crps(r.mean, r.variance, y) > 0
    assert gaussian_crps(r.samples, r.aleatoric, y) > 0
    assert pit_values(r.samples, r.aleatoric, y).shape == (12, 1)
    assert mean_squared_error(r.samples, y) == pytest.approx(mean_squared_error(r.mean, y), rel=1e-5)
    if variance:
        assert math.isfinite(gaussian_nll(r.samples, r.aleatoric, y))
    else:
        assert gaussian_crps(r.samples, r.aleatoric, y) == pytest.approx(sample_crps(r.samples, y, fair=False))
        with pytest.raises(ValueError, match="variance must be positive"):
            gaussian_nll(r.samples, r.aleatoric, y)


@pytest.mark.parametrize(
    ("mean", "variance", "targets", "message"),
    [
        ([math.nan], [1.0], [1.0], "mean holds NaN"),
        ([1.0], [math.nan], [1.0], "variance must be finite"),
        ([1.0], [-1.0], [1.0], "variance must be finite and not negative"),
        ([1.0], [1.0], [math.inf], "targets hold NaN or infinity"),
        ([1.0, 2.0], [1.0, 1.0], [1.0], "targets must have shape"),
        ([[1.0, 2.0]], [[1.0, 1.0]], [1.0], "targets must have shape"),
        ([1.0, 2.0], [1.0, 1.0, 1.0], [1.0, 2.0], "variance must have the shape of mean"),
        ([], [], [], "not empty"),
        (torch.zeros(1, 2, 3, 4), [1.0], [1.0], "mean must be"),
    ],
)
def test_bad_input_is_refused_by_name(mean: object, variance: object, targets: object, message: str) -> None:
    for metric in (gaussian_crps, gaussian_nll, interval_coverage, pit_values):
        with pytest.raises(ValueError, match=message):
            metric(mean, variance, targets)


def test_bad_levels_samples_and_values_are_refused() -> None:
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        interval_coverage([0.0], [1.0], [0.0], levels=[90])
    with pytest.raises(ValueError, match="levels must name"):
        interval_coverage([0.0], [1.0], [0.0], levels=[])
    with pytest.raises(ValueError, match="at least 2 runs"):
        sample_crps([[0.0]], [0.0])
    with pytest.raises(ValueError, match="samples must be"):
        sample_crps([0.0], [0.0])
    with pytest.raises(ValueError, match="values must be probabilities"):
        pit_histogram([1.5])
    with pytest.raises(ValueError, match="bins must be at least 1"):
        pit_histogram([0.5], bins=0)
