from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sttau.metrics import (
    pit_histogram,
    pit_values,
)
from tests.metrics.data import mixture


def test_pit_is_the_cdf_and_halves_a_hit_without_variance() -> None:
    mean, variance, y = mixture(5, 3, 10)
    want = stats.norm(mean.numpy(), variance.sqrt().numpy()).cdf(y.numpy()).mean(0)
    assert np.allclose(pit_values(mean, variance, y), want, atol=1e-12)
    assert pit_values([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.5, 1.0, 2.0])[:, 0].tolist() == [0, 0.5, 1]


def test_the_pit_histogram_holds_upper_edges_and_both_ends() -> None:
    histogram = pit_histogram([0.0, 0.1, 0.2, 0.100001, 1.0])
    assert histogram.count.tolist() == [2, 2, 0, 0, 0, 0, 0, 0, 0, 1]
    assert histogram.density.mean() == pytest.approx(1)
    assert histogram.edges.tolist() == [n / 10 for n in range(11)]
