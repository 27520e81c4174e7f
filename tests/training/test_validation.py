from __future__ import annotations

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, SequenceRegressor, STTauGRU, fit, metrics, predict
from sttau.training import validation


def test_a_classifier_is_measured_as_calibration_measures_its_prediction() -> None:
    x, y = torch.randn(20, 5, 2), torch.randint(3, (20,))
    lengths = torch.randint(1, 6, (20,))
    model = SequenceClassifier(STTauGRU(2, 8, 3), 3)
    p = predict(model, x, lengths, samples=4, seed=2).mean
    measured = validation(model, x, y, lengths, samples=4, seed=2)()
    assert measured["nll"] == pytest.approx(metrics.negative_log_likelihood(p, y), rel=1e-6)
    assert measured["error"] == pytest.approx(metrics.prediction_error(p, y), rel=1e-6)


def test_it_measures_the_model_as_it_then_is_and_leaves_it_in_training() -> None:
    x, y = torch.randn(20, 5, 2), torch.randint(3, (20,))
    model = SequenceClassifier(nn.LSTM(2, 8, num_layers=2, dropout=0.5), 3).train()
    measure = validation(model, x, y)
    first = measure()
    assert measure() == first  # no dropout
    assert model.training
    nn.init.zeros_(model.head.weight)
    assert measure() != first


def test_a_regressor_and_metrics_of_your_own() -> None:
    x, y = torch.randn(20, 5, 2), torch.randn(20)
    model = SequenceRegressor(nn.GRU(2, 8))
    mean = predict(model, x).mean[:, 0]
    error = mean - y
    squared, absolute = float(error.square().mean()), float(error.abs().mean())
    found = validation(model, x, y)()
    assert found == pytest.approx({"mse": squared, "mae": absolute, "crps": absolute})  # without spread
    far = {"worst": lambda mean, y: float((mean - y).abs().max())}
    assert validation(model, x, y, metrics=far)() == {"worst": pytest.approx(float((mean - y).abs().max()))}
    with pytest.raises(ValueError, match="metrics must name at least one"):
        validation(model, x, y, metrics={})


@pytest.mark.parametrize("layer", [nn.GRU(2, 8), STTauGRU(2, 8, 3), STTauGRU(2, 8, 3, mode="exact")], ids=str)
def test_a_variance_head_is_measured_by_likelihood_and_crps(layer: nn.Module) -> None:
    x, y = torch.randn(20, 5, 2), torch.randn(20, 1)
    model = SequenceRegressor(layer, variance=True)
    p = predict(model, x, keep_samples=True)
    spread = (p.mean, p.variance) if p.samples is None else (p.samples, p.sample_variance)
    found = validation(model, x, y)()
    assert found["nll"] == pytest.approx(metrics.gaussian_nll(*spread, y))
    assert found["crps"] == pytest.approx(metrics.gaussian_crps(*spread, y))


def test_fit_monitors_the_likelihood_of_a_regressor() -> None:
    x, y = torch.randn(20, 5, 2), torch.randn(20)
    model = SequenceRegressor(nn.GRU(2, 4), variance=True)
    log = fit(model, x, y, validation=(x, y), updates=2, validate_every=1, metric="nll")
    assert log[-1].validation == log[-1].metrics["nll"]


@pytest.mark.parametrize("own", [False, True])
def test_a_metric_that_is_not_offered_is_refused_before_training(own: bool) -> None:
    x, y = torch.randn(20, 5, 2), torch.randn(20)
    model = SequenceRegressor(nn.GRU(2, 4))
    held_out = validation(model, x, y) if own else (x, y)

    def never(update: object) -> None:
        raise AssertionError("an update was made")

    with pytest.raises(ValueError, match=r"metric must be one of mse, mae, crps, .* got 'nll'. .* variance=True"):
        fit(model, x, y, validation=held_out, updates=50, metric="nll", callbacks=never)
    with pytest.raises(ValueError, match=r"got 'rmse'$"):
        fit(model, x, y, validation=held_out, updates=50, metric="rmse", callbacks=never)
