from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sttau.jobs import Result
from sttau_reproduction.cartpole.statistics import bootstrap, curve_of, interquartile_mean, median, values


def test_the_interquartile_mean_is_scipys_trimmed_mean() -> None:
    numbers = np.random.default_rng(0).normal(size=(5, 20))
    np.testing.assert_allclose(interquartile_mean(numbers), stats.trim_mean(numbers, 0.25, axis=-1))


def test_the_bootstrap_draws_within_strata_and_agrees_with_the_normal_interval() -> None:
    numbers = np.random.default_rng(0).normal(size=400)
    error = 1.96 * numbers.std() / 20
    value, low, high = bootstrap([numbers.tolist()])
    assert value == pytest.approx(numbers.mean())
    assert (high - low) / 2 == pytest.approx(error, rel=0.1)
    far = bootstrap([[0.0] * 10, [100.0] * 10])
    assert far.low == far.high == 50  # without strata the share of each would vary


def test_a_median_of_times_is_never_where_half_were_never() -> None:
    assert bootstrap([[1.0, math.inf, math.inf, math.inf]], median).value == math.inf
    assert bootstrap([[1.0, 2.0, 3.0, math.inf]], median).value == 3.0


def test_tau_is_read_under_its_old_and_its_new_name() -> None:
    for name in ("temperature", "tau"):
        result = Result("cartpole", "cartpole-mdp", "st-tau", 2, 0, {name: 0.9}, {"curves": {name: [1.0, 0.9]}}, 1.0)
        assert values([result], "tau") == [0.9]
        assert curve_of(result, "tau") == [1.0, 0.9]
