from __future__ import annotations

import math
from functools import partial
from typing import Literal

import pytest
import torch

from sttau.metrics import (
    Interval,
    bootstrap_interval,
    brier_score,
    calibration_error,
    calibration_error_by_chance,
    calibration_error_intervals,
)
from sttau.metrics.statistics.intervals import Method
from sttau.metrics.statistics.resampling import draw_rows


def _skewed(size: int, seed: int = 0) -> torch.Tensor:
    return -torch.rand(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).log()  # exponential


def test_the_percentile_interval_is_the_quantiles_of_the_metric_on_resampled_rows() -> None:
    p = torch.rand(30, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    p, y = torch.stack([p, 1 - p], -1), (p < 0.4).long()
    values = sorted(brier_score(p[index], y[index]) for draws in draw_rows(30, 201, seed=5) for index in draws)
    interval = bootstrap_interval(p, y, metric=brier_score, resamples=201, level=0.9, seed=5)
    assert interval.value == brier_score(p, y)
    assert interval.low == pytest.approx(values[10])  # 5 % and 95 % of 200 steps
    assert interval.high == pytest.approx(values[190])
    assert interval.level == 0.9


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_the_fast_mean_is_the_same_as_any_other_metric(method: Method) -> None:
    x = _skewed(40)
    fast = bootstrap_interval(x, resamples=100, method=method, seed=3)
    slow = bootstrap_interval(x, metric=lambda part: float(part.mean()), resamples=100, method=method, seed=3)
    assert (fast.value, fast.low, fast.high) == pytest.approx((slow.value, slow.low, slow.high))


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_bounds_agree_with_scipy(method: Method) -> None:
    from scipy.stats import bootstrap

    x = _skewed(30)
    want = bootstrap((x.numpy(),), lambda v, axis: v.mean(axis), method=method, n_resamples=20_000, rng=0)
    got = bootstrap_interval(x, resamples=20_000, method=method)
    spread = float(want.standard_error)
    assert got.low == pytest.approx(want.confidence_interval.low, abs=0.06 * spread)  # noise of 20,000 resamples
    assert got.high == pytest.approx(want.confidence_interval.high, abs=0.06 * spread)


def test_bca_corrects_the_skewed_mean_to_the_right() -> None:
    x = _skewed(30)
    plain, corrected = (bootstrap_interval(x, resamples=20_000, method=m) for m in ("percentile", "bca"))
    assert corrected.low > plain.low
    assert corrected.high > plain.high


def test_intervals_of_a_mean_cover_it_as_often_as_they_say() -> None:
    hits = 0
    for seed in range(300):
        interval = bootstrap_interval(torch.rand(60, generator=torch.Generator().manual_seed(seed)), resamples=300)
        hits += interval.low <= 0.5 <= interval.high
    assert 0.90 <= hits / 300 <= 0.985  # nominal 0.95, three standard errors of 300 trials, and a little undercoverage


def test_intervals_follow_the_seed() -> None:
    x = _skewed(30)
    assert bootstrap_interval(x, seed=1) == bootstrap_interval(x, seed=1) != bootstrap_interval(x, seed=2)


def test_one_prediction_gives_an_interval_without_width() -> None:
    interval = bootstrap_interval([[0.5, 0.5]], [1], metric=brier_score, resamples=20)
    assert interval.low == interval.value == interval.high == 0.5


def test_a_metric_that_never_varies_has_an_interval_without_width_by_either_method() -> None:
    for method in ("percentile", "bca"):
        interval = bootstrap_interval(torch.ones(5), resamples=50, method=method)
        assert interval.low == interval.value == interval.high == 1


def test_bca_stays_finite_where_all_resamples_lie_on_one_side() -> None:
    p = torch.full((50, 2), 0.5, dtype=torch.float64)  # calibrated to the last digit: resampling only makes it worse
    interval = bootstrap_interval(p, [0, 1] * 25, metric=calibration_error, resamples=200, method="bca")
    assert interval.value == 0
    assert 0 <= interval.low <= interval.high < 0.1


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ((), {}, "one or more tensors"),
        (([],), {}, "not empty"),
        (([1.0], [1.0]), {}, "without a metric there must be one tensor"),
        (([[1.0]],), {}, "without a metric there must be one tensor"),
        (([1.0, math.nan],), {}, "NaN or infinity"),
        (([[0.5, 0.5]], [0, 1]), {"metric": brier_score}, "equal numbers of rows"),
        (([[1.0, 0.0]], [1]), {"metric": lambda p, y: math.inf}, "metric returned inf"),
        (([1.0],), {"method": "bca"}, "at least 2 predictions"),
        (([1.0],), {"method": "normal"}, "method must be"),
        (([1.0],), {"level": 95}, "level must lie between 0 and 1"),
        (([1.0],), {"resamples": 0}, "resamples must be at least 1"),
    ],
)
def test_bad_input_is_refused_by_name(data: tuple[object, ...], options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(*data, **options)  # type: ignore[arg-type]


def test_intervals_of_both_calibration_errors_are_those_of_the_general_bootstrap() -> None:
    p = torch.rand(300, 4, generator=torch.Generator().manual_seed(1)).softmax(-1)
    labels = torch.arange(300) % 4
    found = calibration_error_intervals(p, labels, bins=15, resamples=50, level=0.9, seed=3)
    for norm in ("expected", "maximum"):
        metric = partial(calibration_error, bins=15, norm=norm)
        expected = bootstrap_interval(p, labels, metric=metric, resamples=50, level=0.9, seed=3)
        for name in ("value", "low", "high"):
            assert getattr(found[norm], name) == pytest.approx(getattr(expected, name), abs=1e-9)


def test_by_chance_it_is_what_labels_drawn_from_the_probabilities_give() -> None:
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(400, 3, generator=generator, dtype=torch.float64).pow(2)
    p /= p.sum(1, keepdim=True)
    found = calibration_error_by_chance(p, resamples=400)
    norms: tuple[Literal["expected", "maximum"], ...] = ("expected", "maximum")
    for norm in norms:
        interval = found[norm]
        drawn = torch.tensor(
            [
                calibration_error(p, torch.multinomial(p, 1, generator=generator).flatten(), norm=norm)
                for _ in range(400)
            ]
        )
        assert interval.value == pytest.approx(float(drawn.mean()), rel=0.05)
        assert interval.low == pytest.approx(float(drawn.quantile(0.025)), rel=0.2)
        assert interval.high == pytest.approx(float(drawn.quantile(0.975)), rel=0.2)


def test_a_network_that_is_always_sure_has_no_error_by_chance() -> None:
    assert calibration_error_by_chance(torch.tensor([[1.0, 0.0]] * 9))["maximum"] == Interval(0.0, 0.0, 0.0, 0.95)
    with pytest.raises(ValueError, match="resamples must be at least 1"):
        calibration_error_by_chance(torch.tensor([[1.0, 0.0]]), resamples=0)
