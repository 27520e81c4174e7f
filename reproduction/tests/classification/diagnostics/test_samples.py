from __future__ import annotations

import pytest
import torch

from sttau import SequenceClassifier, STTauLSTM
from sttau.data import load
from sttau.inference import predict
from sttau_reproduction.classification.diagnostics.samples import NUMBERS, first_samples, measure_samples


def test_the_first_samples_are_those_of_a_smaller_prediction() -> None:
    torch.manual_seed(0)
    data = load("digits", "test").select(torch.arange(20))
    model = SequenceClassifier(STTauLSTM(8, 6, num_states=3), num_classes=10)
    many = predict(model, data.inputs, samples=12, keep_samples=True)
    few, expected = first_samples(many, 5), predict(model, data.inputs, samples=5, keep_samples=True)
    for name in ("mean", "variance", "total", "aleatoric", "samples", "epistemic", "corrected_epistemic"):
        assert getattr(few, name) == pytest.approx(getattr(expected, name), abs=1e-6)
    with pytest.raises(ValueError, match="keep_samples=True"):
        first_samples(predict(model, data.inputs), 2)


def test_information_grows_with_samples_and_less_so_when_corrected() -> None:
    torch.manual_seed(0)
    data = load("digits", "test").select(torch.arange(200))
    model = SequenceClassifier(STTauLSTM(8, 6, num_states=3, temperature=0.3), num_classes=10)
    found = measure_samples(model, data)
    plain = [found[f"samples_{number}_information"] for number in NUMBERS]
    assert plain == sorted(plain)
    assert plain[0] == pytest.approx(0, abs=1e-6)
    corrected = [found[f"samples_{number}_corrected"] for number in NUMBERS[1:]]
    assert abs(corrected[1] - corrected[-1]) < abs(plain[2] - plain[-1])
    assert corrected[-1] == pytest.approx(50 / 49 * plain[-1])
