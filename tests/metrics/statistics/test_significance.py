from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sttau.metrics import Comparison, brier_score, calibration_error, paired_bootstrap, randomization_test
from sttau.metrics.statistics import holm

Test = Callable[..., Comparison]


def _exact(a: list[float], b: list[float]) -> float:
    """The p-value over all 2^n exchanges."""
    real = abs(sum(a) - sum(b))
    differences = [
        abs(sum(sign * (x - y) for sign, x, y in zip(signs, a, b, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(a))
    ]
    return sum(d >= real - 1e-9 for d in differences) / len(differences)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("binary", [False, True])
def test_randomization_approaches_the_exact_permutation_test(seed: int, binary: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.rand(2, 9, generator=generator, dtype=torch.float64)
    a = a + 0.2
    if binary:
        a, b = (a > 0.5).double(), (b > 0.5).double()
    want = _exact(a.tolist(), b.tolist())
    got = randomization_test(a, b, rounds=19_999).p_value
    assert got == pytest.approx(want, abs=4 * math.sqrt(0.25 / 20_000))


def test_a_set_level_metric_is_exchanged_row_by_row() -> None:
    generator = torch.Generator().manual_seed(1)
    p, q = (2 * torch.randn(2, 6, 3, generator=generator, dtype=torch.float64)).softmax(-1)
    y = torch.randint(3, (6,), generator=generator)
    real = abs(calibration_error(p, y) - calibration_error(q, y))
    count = 0
    for mask in itertools.product((False, True), repeat=6):
        swap = torch.tensor(mask)[:, None]
        x, z = torch.where(swap, q, p), torch.where(swap, p, q)
        count += abs(calibration_error(x, y) - calibration_error(z, y)) >= real - 1e-12
    got = randomization_test(p, q, y, metric=calibration_error, rounds=1999)
    assert got.p_value == pytest.approx(count / 64, abs=4 * math.sqrt(0.25 / 2000))
    assert abs(got.difference) == pytest.approx(real)


def test_a_mean_gives_the_same_as_the_metric_that_is_this_mean() -> None:
    generator = torch.Generator().manual_seed(2)
    p, q = (2 * torch.randn(2, 20, 3, generator=generator, dtype=torch.float64)).softmax(-1)
    y = torch.randint(3, (20,), generator=generator)
    outcome = torch.nn.functional.one_hot(y, 3)
    losses = [(x - outcome).square().sum(-1) for x in (p, q)]
    for test in (partial(randomization_test, rounds=999), partial(paired_bootstrap, resamples=999)):
        slow, fast = test(p, q, y, metric=brier_score), test(*losses)
        assert slow.difference == pytest.approx(fast.difference)
        assert slow.p_value == pytest.approx(fast.p_value)


def test_p_is_uniform_when_there_is_no_difference() -> None:
    from scipy.stats import kstest

    generator = torch.Generator().manual_seed(0)
    values = []
    for seed in range(500):
        a, b = torch.randn(2, 40, generator=generator, dtype=torch.float64).exp()  # skewed, but exchangeable
        values.append(randomization_test(a, b, rounds=199, seed=seed).p_value)
    assert kstest(values, "uniform").pvalue > 0.01
    assert sum(p <= 0.05 for p in values) / 500 == pytest.approx(0.05, abs=0.03)


def test_the_bootstraps_p_holds_its_level_on_many_predictions() -> None:
    generator = torch.Generator().manual_seed(0)
    small, inside = 0, 0
    for seed in range(300):
        a, b = torch.randn(2, 100, generator=generator, dtype=torch.float64).exp()
        answer = paired_bootstrap(a, b, resamples=199, seed=seed)
        assert answer.interval is not None
        small += answer.p_value <= 0.05
        inside += answer.interval.low <= 0 <= answer.interval.high
    assert 0.015 <= small / 300 <= 0.1
    assert 0.9 <= inside / 300 <= 0.985


@pytest.mark.parametrize("test", [randomization_test, paired_bootstrap])
def test_a_real_difference_is_found_in_either_direction_and_p_is_never_zero(test: Test) -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.rand(200, generator=generator)
    b = a + 0.1 * torch.rand(200, generator=generator)
    one, other = test(a, b, seed=1), test(b, a, seed=1)
    assert one.p_value == other.p_value == 1 / 10_000
    assert one.difference == -other.difference < 0


@pytest.mark.parametrize("test", [randomization_test, paired_bootstrap])
def test_equal_methods_differ_with_p_one(test: Test) -> None:
    a = torch.rand(10)
    assert test(a, a).p_value == 1
    assert test([0.5], [0.5]).p_value == 1
    assert test(a, a).difference == 0


@given(st.integers(0, 100), st.integers(1, 12))
def test_p_values_lie_on_their_grid_and_follow_the_seed(seed: int, size: int) -> None:
    a, b = torch.rand(2, size, generator=torch.Generator().manual_seed(seed))
    answer = randomization_test(a, b, rounds=19, seed=seed)
    assert 1 <= round(20 * answer.p_value) <= 20
    assert 20 * answer.p_value == pytest.approx(round(20 * answer.p_value))
    assert answer == randomization_test(a, b, rounds=19, seed=seed)


def test_one_pair_can_prove_nothing() -> None:
    assert randomization_test([1.0], [0.0]).p_value == 1


def test_holm_keeps_the_order_and_never_lowers_p() -> None:
    p = {"a": 0.04, "b": 0.001, "c": 0.03, "d": 0.9}
    assert holm(p) == pytest.approx({"b": 0.004, "c": 0.09, "a": 0.09, "d": 0.9})
    assert holm({}) == {}


@pytest.mark.parametrize("test", [randomization_test, paired_bootstrap])
def test_bad_input_is_refused_by_name(test: Test) -> None:
    with pytest.raises(ValueError, match="same shape"):
        test([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="pass metric="):
        test([1.0], [1.0], [0])
    with pytest.raises(ValueError, match="NaN"):
        test([1.0], [math.nan])
    with pytest.raises(ValueError, match="not empty"):
        test([], [])
    with pytest.raises(ValueError, match="equal numbers of rows"):
        test([[0.5, 0.5]], [[0.5, 0.5]], [0, 1], metric=brier_score)
    with pytest.raises(ValueError, match="rounds must be at least 1"):
        randomization_test([1.0], [1.0], rounds=0)
    with pytest.raises(ValueError, match="resamples must be at least 1"):
        paired_bootstrap([1.0], [1.0], resamples=0)
