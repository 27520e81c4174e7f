from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from scipy.stats import binomtest
from torch import nn

import sttau
from sttau.data import SequenceDataset, load
from sttau.errors import DataError
from sttau.evaluation import evaluate
from sttau.metrics import calibration_error, mean_squared_error, negative_log_likelihood, prediction_error


def digits() -> SequenceDataset:
    return load("digits", "test")


def test_the_metrics_are_those_of_the_predictions() -> None:
    data = digits()
    model = sttau.create_model(data, "lstm", hidden_size=8)
    found = evaluate(model, data)
    p = sttau.predict(model, data).mean
    assert found.metrics["pe"].value == pytest.approx(100 * prediction_error(p, data.labels))
    assert found.metrics["nll"].value == pytest.approx(negative_log_likelihood(p, data.labels), rel=1e-6)
    assert found.metrics["ece"].value == pytest.approx(100 * calibration_error(p, data.labels), rel=1e-6)
    assert all(one.low <= one.value <= one.high for one in found.metrics.values())
    assert found.acceptance is None
    assert "set_coverage" not in found.metrics


def test_an_error_rate_has_its_exact_interval_also_without_errors() -> None:
    data = digits()
    model = sttau.create_model(data, "lstm", hidden_size=8)
    found = evaluate(model, data).metrics["pe"]
    errors = round(found.value / 100 * len(data))
    expected = binomtest(errors, len(data)).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((100 * expected.low, 100 * expected.high), rel=1e-6)
    data = replace(data, labels=sttau.predict(model, data).label)
    found = evaluate(model, data).metrics["pe"]
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(100 * (1 - 0.025 ** (1 / len(data))), rel=1e-6)


def test_the_reliability_table_holds_all_predictions() -> None:
    data = digits()
    result = evaluate(sttau.create_model(data, "lstm", hidden_size=8), data)
    header, rows = result.reliability_table()
    assert header[0] == "confidence"
    assert sum(int(row[1]) for row in rows) == len(data)
    gap = sum(int(row[1]) * abs(float(row[2]) - float(row[3])) for row in rows) / len(data)
    assert gap == pytest.approx(result.metrics["ece"].value, abs=0.1)  # the table is rounded to 0.1


def test_every_class_has_its_recall_and_precision() -> None:
    data = digits()
    model = sttau.create_model(data, "lstm", hidden_size=8)
    label = sttau.predict(model, data).label
    for number, score in enumerate(evaluate(model, data).classes):
        right = int(((label == number) & (data.labels == number)).sum())
        assert score.name == data.class_names[number]
        assert score.support == int((data.labels == number).sum())
        assert score.recall == pytest.approx(right / score.support)
        called = int((label == number).sum())
        assert score.precision == pytest.approx(right / called) if called else score.precision != score.precision


def test_a_calibrated_model_shows_what_its_thresholds_achieve() -> None:
    data = digits()
    model = sttau.create_model(data, hidden_size=8)
    sttau.calibrate(model, data, coverage=0.6)
    found = evaluate(model, data)
    assert found.acceptance is not None
    assert found.acceptance.coverage == pytest.approx(0.6, abs=0.01)
    assert found.metrics["set_coverage"].value == pytest.approx(90, abs=2)
    assert found.ood_rate is not None
    assert 0 < found.ood_rate <= 0.05
    titles = [row[0] for row in found.table()[1]]
    assert {"error %", "accepted %", "called OOD %"} <= set(titles)


def test_a_regressor_is_evaluated_by_its_distribution() -> None:
    x = torch.randn(50, 4, 1, generator=torch.Generator().manual_seed(0))
    data = SequenceDataset("sums", "test", x, torch.full((50,), 4), x.sum((1, 2)), (), "drawn")
    model = sttau.SequenceRegressor(nn.GRU(1, 8), variance=True)
    sttau.calibrate(model, data)
    found = evaluate(model, data)
    assert found.classes == []
    assert found.metrics["mse"].value == pytest.approx(
        mean_squared_error(sttau.predict(model, data).mean, data.labels[:, None]), rel=1e-5
    )
    assert found.metrics["set_coverage"].value == pytest.approx(90, abs=5)


def test_unknown_targets_are_refused() -> None:
    data = digits()
    data.labels[3] = -1
    with pytest.raises(DataError, match="1 sequences without a known target"):
        evaluate(sttau.create_model(digits(), "lstm", hidden_size=8), data)
    data.labels[3] = 0
