from __future__ import annotations

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, SequenceRegressor, STTauGRU, metrics, predict
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
    assert validation(model, x, y)() == {"mse": pytest.approx(float((mean - y).square().mean()))}
    far = {"worst": lambda mean, y: float((mean - y).abs().max())}
    assert validation(model, x, y, metrics=far)() == {"worst": pytest.approx(float((mean - y).abs().max()))}
    with pytest.raises(ValueError, match="metrics must name at least one"):
        validation(model, x, y, metrics={})
