from __future__ import annotations

import math

import pytest
import torch

import sttau
from sttau.metrics import (
    gaussian_crps,
    gaussian_nll,
    interval_coverage,
    mean_squared_error,
    pit_histogram,
    pit_values,
    sample_crps,
)


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
    with pytest.raises(ValueError, match="levels must hold"):
        interval_coverage([0.0], [1.0], [0.0], levels=[])
    with pytest.raises(ValueError, match="at least 2 samples"):
        sample_crps([[0.0]], [0.0])
    with pytest.raises(ValueError, match="samples must be"):
        sample_crps([0.0], [0.0])
    with pytest.raises(ValueError, match="values must be probabilities"):
        pit_histogram([1.5])
    with pytest.raises(ValueError, match="bins must be at least 1"):
        pit_histogram([0.5], bins=0)
