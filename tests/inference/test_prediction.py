"""The value that ``predict`` returns."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sttau import DeepEnsemble, Prediction, SequenceClassifier, SequenceRegressor, STTauGRU, STTauLSTM, predict
from sttau.data import load
from sttau.inference import entropy
from tests.inference.small_models import DOUBLE, EXACTLY, batch_of, bits, bold, close


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


@given(
    kind=st.sampled_from([STTauLSTM, STTauGRU]),
    k=st.integers(2, 5),
    classes=st.integers(2, 5),
    time=st.integers(1, 5),
    runs=st.integers(1, 9),
    mode=st.sampled_from(["soft", "hard", "exact", "deterministic"]),
    scale=st.sampled_from([0.1, 1.0, 10.0, 1000.0]),
    seed=st.integers(0, 10**6),
)
def test_uncertainty_is_consistent(
    kind: type[STTauLSTM | STTauGRU],
    k: int,
    classes: int,
    time: int,
    runs: int,
    mode: Any,
    scale: float,
    seed: int,
) -> None:
    if mode == "exact":
        kind = STTauGRU
    model = bold(SequenceClassifier(kind(2, 4, k), classes), seed)
    with torch.no_grad():
        model.head.weight.mul_(scale)
    p = predict(model, batch_of(3, time, 2, seed=seed), samples=runs, seed=seed, mode=mode)
    ceiling = math.log2(classes) + EXACTLY
    assert bool((p.mean >= 0).all())
    close(p.mean.sum(-1), torch.ones(3, dtype=DOUBLE))
    assert bool((p.variance >= 0).all())
    assert bool((p.variance <= 0.25 + EXACTLY).all())
    assert bool((p.epistemic >= 0).all())
    assert bool((p.epistemic <= ceiling).all())
    assert bool((p.aleatoric >= 0).all())
    assert bool((p.total <= ceiling).all())
    close(p.total, p.aleatoric + p.epistemic)
    close(p.total, bits(p.mean))
    assert torch.equal(p.label, p.mean.argmax(-1))
    assert torch.equal(p.confidence, p.mean.amax(-1))


def test_rounding_does_not_make_epistemic_uncertainty_negative() -> None:
    total, aleatoric = torch.tensor([0.5, 0.5]), torch.tensor([0.5000001, 0.25])
    p = Prediction(torch.zeros(2, 2), "soft", 1, torch.zeros(2, 2), total, aleatoric)
    assert p.epistemic.tolist() == [0.0, 0.25]


@given(st.integers(2, 64), st.sampled_from([torch.float32, DOUBLE]))
def test_entropy_is_between_certainty_and_the_uniform_distribution(n: int, dtype: torch.dtype) -> None:
    tolerance = 4 * torch.finfo(dtype).eps * math.log2(n)
    assert entropy(torch.full((n,), 1 / n, dtype=dtype)).item() == pytest.approx(math.log2(n), abs=tolerance)
    assert entropy(torch.eye(n, dtype=dtype)).tolist() == [0.0] * n
