"""The value that ``predict`` returns."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import nn

from sttau import DeepEnsemble, SequenceClassifier, SequenceRegressor, STTauGRU, predict
from sttau.data import load


def test_its_repr_is_short_and_says_how_it_was_made() -> None:
    model = SequenceClassifier(STTauGRU(8, 4, 3), 10)
    data = load("digits", "test")
    assert repr(predict(model, data, samples=3)) == "Prediction(359 sequences, 10 classes, mode='soft', 3 samples)"
    assert repr(predict(model, data[:2], per_step=True, mode="exact")) == (
        "Prediction(2 sequences of 8 steps, 10 classes, mode='exact')"
    )
    regressor = SequenceRegressor(nn.LSTM(8, 4), 2)
    assert (
        repr(predict(regressor, data.inputs)) == "RegressionPrediction(359 sequences, 2 outputs, mode='deterministic')"
    )


def test_samples_are_counted_over_members() -> None:
    data = load("digits", "test")[:3]
    model = DeepEnsemble.of(lambda: SequenceClassifier(STTauGRU(8, 4, 3), 10), 2)
    assert predict(model, data, samples=5).num_samples == 10
    assert predict(model, data, mode="exact").num_samples == 2
    assert len(predict(model, data)) == 3


def test_it_is_moved_and_converted() -> None:
    model = SequenceClassifier(STTauGRU(8, 4, 3), 10)
    p = predict(model, load("digits", "test")[:4], keep_samples=True, samples=3)
    double = p.to(torch.float64)
    assert double.mean.dtype == torch.float64
    assert double.samples is not None
    assert (double.samples.dtype, double.mode, double.num_samples) == (torch.float64, "soft", 3)
    assert torch.equal(p.cpu().mean, p.mean)
    arrays = p.numpy()
    assert set(arrays) == {"mean", "variance", "total", "aleatoric", "samples", "label", "confidence", "epistemic"}
    np.testing.assert_array_equal(arrays["label"], p.label.numpy())


def test_a_frame_has_a_row_per_sequence_with_class_names() -> None:
    pandas = pytest.importorskip("pandas")
    data = load("digits", "test")[:4]
    model = SequenceClassifier(STTauGRU(8, 4, 3), 10)
    model.set_metadata(data)
    p = predict(model, data)
    frame = p.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns[:5]) == ["label", "confidence", "total", "aleatoric", "epistemic"]
    assert frame["label"].tolist() == [data.class_names[number] for number in p.label.tolist()]
    assert frame["p_3"].to_numpy() == pytest.approx(p.mean[:, 3].numpy())
    steps = predict(model, data, per_step=True).to_frame()
    assert list(steps.index.names) == ["sequence", "step"]
    assert len(steps) == 4 * 8
    outputs = predict(SequenceRegressor(nn.LSTM(8, 4), 2, variance=True), data.inputs).to_frame()
    assert list(outputs.columns) == [
        f"{name}_{n}" for n in (0, 1) for name in ("mean", "total", "aleatoric", "epistemic")
    ]


def test_without_pandas_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        predict(SequenceClassifier(nn.LSTM(8, 4), 10), load("digits", "test")[:2]).to_frame()


def test_few_samples_are_corrected_towards_exact_epistemic_uncertainty() -> None:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(3, 16, num_states=4, mode="hard"), 3)
    x = torch.randn(400, 5, 3)
    exact = predict(model, x, mode="exact")
    few = predict(model, x, samples=5)
    share = float(few.epistemic.mean() / exact.epistemic.mean())
    corrected = float(few.corrected_epistemic.mean() / exact.epistemic.mean())
    assert share == pytest.approx(0.8, abs=0.04)
    assert corrected == pytest.approx(1, abs=0.04)
    assert torch.equal(exact.corrected_epistemic, exact.epistemic)


def test_the_corrected_variance_of_a_regressor_is_the_unbiased_one() -> None:
    model = SequenceRegressor(STTauGRU(2, 8, num_states=4), variance=True)
    p = predict(model, torch.randn(6, 4, 2), samples=4, keep_samples=True)
    assert p.samples is not None
    torch.testing.assert_close(p.corrected_epistemic, p.samples.var(0, correction=1), rtol=1e-4, atol=1e-8)
    with pytest.raises(ValueError, match="at least 2 samples"):
        _ = predict(model, torch.randn(6, 4, 2), samples=1).corrected_epistemic
