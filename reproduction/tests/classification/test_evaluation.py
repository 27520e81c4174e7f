from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reproduction.tests.classification.small_networks import cells, generated_reviews
from sttau import STTauLSTM, predict
from sttau.calibration import TemperatureScaling, to_logits
from sttau.data.text import encode, tokenize
from sttau.jobs import Cell, Result
from sttau.metrics import (
    area_under_risk_coverage,
    bootstrap_interval,
    brier_score,
    calibration_error,
    classwise_calibration_error,
    detection,
    negative_log_likelihood,
    prediction_error,
)
from sttau.models import DeepEnsemble
from sttau.ood import SCORES, max_probability_score
from sttau_reproduction.classification.cells import Work
from sttau_reproduction.classification.evaluation import measure
from sttau_reproduction.classification.figures import SENTENCES
from sttau_reproduction.classification.predictions import predictions_path
from sttau_reproduction.classification.splits import load_splits
from sttau_reproduction.classification.trained import read_network

EIGHT = ("pe", "ece", "mce", "adaptive_ece", "classwise_ece", "nll", "brier", "aurc")


def _compute(cell: Cell, folder: Path) -> tuple[Result, Any]:
    ((_, result),) = Work(folder)([cell], folder)
    assert isinstance(result, Result), result
    path = predictions_path(folder / "predictions", cell.data, cell.method)
    return result, np.load(path) if path.exists() else None


def _directly(p: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    wrong = (p.argmax(1) != labels).double()
    return {
        "pe": 100 * prediction_error(p, labels),
        "ece": 100 * calibration_error(p, labels),
        "mce": 100 * calibration_error(p, labels, norm="maximum"),
        "adaptive_ece": 100 * calibration_error(p, labels, binning="mass"),
        "classwise_ece": 100 * classwise_calibration_error(p, labels),
        "nll": negative_log_likelihood(p, labels),
        "brier": brier_score(p, labels),
        "aurc": 100 * area_under_risk_coverage(max_probability_score(p), wrong),
    }


def test_a_probability_that_underflowed_does_not_make_the_likelihood_infinite() -> None:
    found = measure(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    assert 40 < found["nll"] < 50


@pytest.mark.parametrize("name", ["lstm", "st-tau-classes"])
def test_the_metrics_are_those_of_direct_computation(name: str, tmp_path: Path) -> None:
    with generated_reviews():
        (cell,) = cells(name, data="imdb")
        runs = 10 if name != "lstm" else 1
        assert cell.settings["prediction_runs"] == runs
        result, arrays = _compute(cell, tmp_path)
        model, log = read_network(tmp_path / "networks", cell, "cpu")
        splits = load_splits("imdb", cell.settings["part"], "cpu")
    test, held_out, metrics = splits.test, splits.validation, result.metrics

    def predict_probabilities(data: Any, seed: int = 0) -> Any:
        return predict(model, data.inputs, data.lengths, 10, seed, keep_samples=True)

    answers = [predict_probabilities(test, run) for run in range(runs)]
    scaling = TemperatureScaling().fit(to_logits(predict_probabilities(held_out)), held_out.labels)
    assert metrics["scaling_temperature"] == pytest.approx(scaling.temperature, rel=1e-4)
    plain = [_directly(answer.mean, test.labels) for answer in answers]
    scaled = [_directly(scaling.probabilities(to_logits(answer)), test.labels) for answer in answers]
    for prefix, key in product(("", "scaled_"), EIGHT):
        values = [found[key] for found in (scaled if prefix else plain)]
        assert metrics[f"{prefix}{key}"] == pytest.approx(np.mean(values), rel=1e-3, abs=1e-3)
        if runs > 1:
            assert metrics[f"{prefix}{key}_std"] == pytest.approx(np.std(values, ddof=1), rel=1e-2, abs=1e-3)
    for key, norm in (("ece", "expected"), ("mce", "maximum")):
        interval = bootstrap_interval(
            answers[0].mean, test.labels, metric=lambda p, y, norm=norm: calibration_error(p, y, norm=norm)
        )
        assert metrics[f"{key}_low"] == pytest.approx(100 * interval.low, abs=1e-3)
        assert metrics[f"{key}_high"] == pytest.approx(100 * interval.high, abs=1e-3)
    for key, value in _directly(predict_probabilities(held_out).mean, held_out.labels).items():
        if key in ("pe", "ece", "nll"):
            assert metrics[f"validation_{key}"] == pytest.approx(value, rel=1e-4)

    for out, data in splits.ood.items():
        rows = arrays[f"inside_{out}"]
        assert len(set(rows.tolist())) == len(rows) == len(data)
        accuracy = [100 * float((a.label[rows] == test.labels[rows]).double().mean()) for a in answers]
        assert metrics[f"{out}_accuracy"] == pytest.approx(np.mean(accuracy))
        unseen = [predict_probabilities(data, run) for run in range(runs)]
        for score, function in SCORES.items():
            key = f"{out}_{score.replace('-', '_')}"
            if name == "lstm" and score in ("variance", "mutual-information"):
                assert f"{key}_aupr" not in metrics
                continue
            found = [
                detection(function(a.samples[:, rows]), function(b.samples))
                for a, b in zip(answers, unseen, strict=True)
            ]
            for what in ("aupr", "auroc", "fpr95"):
                values = [100 * getattr(one, what) for one in found]
                assert metrics[f"{key}_{what}"] == pytest.approx(np.mean(values), abs=0.5)
        np.testing.assert_allclose(arrays[out], unseen[0].mean, atol=1e-5)
        assert (f"{out}_variance" in arrays) == (name != "lstm")

    assert (metrics["updates"], metrics["parameters"]) == (12, sum(p.numel() for p in model.parameters()))
    validated = {u.number: u.validation for u in log if u.validation is not None}
    assert validated[int(metrics["best_update"])] == min(v for v in validated.values() if v is not None)
    np.testing.assert_allclose(arrays["probabilities"], answers[0].mean, atol=1e-5)
    np.testing.assert_allclose(arrays["validation_probabilities"], predict_probabilities(held_out).mean, atol=1e-5)
    assert arrays["labels"].dtype == np.uint8
    assert arrays["labels"].tolist() == test.labels.tolist()
    assert arrays["validation_labels"].tolist() == held_out.labels.tolist()
    assert float(arrays["scaling_temperature"]) == metrics["scaling_temperature"]
    assert "temperature" not in metrics
    if name == "lstm":
        assert not {"tau", "reading"} & set(arrays)
        return
    assert arrays["tau"][:, 0].tolist() == [u.number for u in log]
    assert metrics["tau"] == pytest.approx(model.members[0].finite_state_layer.temperature.item())
    ids, lengths = encode(SENTENCES, test.vocabulary or ())
    direct = predict(model, ids, lengths, 10, per_step=True, keep_samples=True).samples
    np.testing.assert_allclose(arrays["reading"], direct, atol=1e-5)
    assert [word for word in arrays["reading_words"][0].tolist() if word] == tokenize(SENTENCES[0])


def test_what_is_read_along_of_features_is_one_right_and_one_wrong(tmp_path: Path) -> None:
    (cell,) = cells("st-tau-classes")
    _, arrays = _compute(cell, tmp_path)
    right = arrays["probabilities"].argmax(1) == arrays["labels"]
    one, other = arrays["reading_rows"].tolist()
    assert not right[other]
    assert (right[one] and arrays["labels"][one] == 0) or not (right & (arrays["labels"] == 0)).any()
    np.testing.assert_allclose(
        arrays["reading"][:, :, -1].mean(0), arrays["probabilities"][[one, other]], rtol=1e-4, atol=1e-5
    )


def test_the_sweep_changes_the_rate_at_prediction_time_and_puts_it_back(tmp_path: Path) -> None:
    (cell,) = cells("dropout")
    result, _ = _compute(cell, tmp_path)
    model, _ = read_network(tmp_path / "networks", cell, "cpu")
    data = load_splits("digits", cell.settings["part"], "cpu").test
    for rate in (0.0, 0.7):
        model.members[0].layer.dropout = rate
        p = predict(model, data.inputs, samples=10).mean
        for key, value in _directly(p, data.labels).items():
            if key in ("pe", "ece", "mce"):
                assert result.metrics[f"sweep_{rate}_{key}"] == pytest.approx(value, abs=1e-3)
    assert sum(key.startswith("sweep_") for key in result.metrics) == 30


def test_later_seeds_have_one_run_and_leave_no_arrays(tmp_path: Path) -> None:
    _, cell = cells("dropout", seeds=2)
    result, arrays = _compute(cell, tmp_path)
    assert arrays is None
    assert not [key for key in result.metrics if key.endswith("_std") or key.startswith("sweep")]


def test_an_ensemble_counts_all_members_and_has_a_variance_among_them(tmp_path: Path) -> None:
    with generated_reviews():
        (cell,) = cells("ensemble", data="imdb")
        result, arrays = _compute(cell, tmp_path)
        model, _ = read_network(tmp_path / "networks", cell, "cpu")
    assert result.metrics["parameters"] == 2 * sum(p.numel() for p in model.members[0].parameters())
    assert "customer_variance_auroc" in result.metrics
    assert "pe_std" not in result.metrics
    assert arrays["customer_variance"].shape == (30,)


def test_members_of_an_ensemble_may_draw(tmp_path: Path) -> None:
    (cell,) = cells("st-tau-ensemble")
    result, _ = _compute(cell, tmp_path)
    model, _ = read_network(tmp_path / "networks", cell, "cpu")
    assert isinstance(model, DeepEnsemble)
    assert all(isinstance(member.layer, STTauLSTM) for member in model.members)
    assert result.metrics["pe_std"] >= 0  # over predictions
    assert result.states == 4
