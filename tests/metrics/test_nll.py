from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sttau.metrics import (
    gaussian_nll,
    negative_log_likelihood,
)
from tests.metrics.data import forecasts, mixture


def test_negative_log_likelihood_is_the_mean_over_true_classes() -> None:
    assert negative_log_likelihood([[0.25, 0.75], [0.5, 0.5]], [0, 1]) == pytest.approx(math.log(8) / 2)
    assert negative_log_likelihood([[0.0, 1.0]], [0]) == math.inf


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 40))
def test_negative_log_likelihood_equals_scikit_learn(seed: int, classes: int, size: int) -> None:
    from sklearn.metrics import log_loss

    p, y = forecasts(seed, classes, size, tied=False)
    assert negative_log_likelihood(p, y) == pytest.approx(log_loss(y, p.numpy(), labels=range(classes)), rel=1e-9)


@pytest.mark.parametrize("samples", [1, 4])
def test_likelihood_equals_scipy(samples: int) -> None:
    mean, variance, y = mixture(1, samples, 30, 2)
    density = stats.norm(mean.numpy(), variance.sqrt().numpy()).pdf(y.numpy()).mean(0)
    assert gaussian_nll(mean, variance, y) == pytest.approx(-np.log(density).mean(), abs=1e-10)


def test_likelihood_of_far_targets_stays_finite_for_amixture() -> None:
    assert gaussian_nll(torch.zeros(3, 1, 1), torch.ones(3, 1, 1), [100.0]) == pytest.approx(
        5000 + math.log(2 * math.pi) / 2
    )


@pytest.mark.parametrize(("dtype", "expected"), [(torch.float32, 87.3365), (torch.float64, 708.3964)])
def test_clipping_replaces_a_probability_of_zero_by_the_smallest_normal_number(
    dtype: torch.dtype, expected: float
) -> None:
    p = torch.tensor([[1.0, 0.0]], dtype=dtype)
    assert negative_log_likelihood(p, [1]) == math.inf
    assert negative_log_likelihood(p, [1], clip=True) == pytest.approx(expected, abs=1e-3)
