"""Distance from what was seen in training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sttau import DeepEnsemble, SequenceClassifier, STTauGRU, STTauLSTM
from sttau.engine import Noise
from sttau.engine.noise import fingerprint
from sttau.inference import features
from sttau.layers import BayesLSTM
from sttau.ood import FeatureDistance


def test_the_distance_is_that_of_mahalanobis() -> None:
    torch.manual_seed(0)
    mixing = torch.randn(3, 3, dtype=torch.float64)
    y = torch.arange(20_000) % 2
    x = torch.randn(20_000, 3, dtype=torch.float64) @ mixing + 4 * y[:, None]
    distance = FeatureDistance().fit(x, y)
    inverse = np.linalg.inv((mixing.T @ mixing).numpy())
    new = torch.randn(5, 3, dtype=torch.float64)
    expected = [min(((p - m) @ inverse @ (p - m)) for m in (np.zeros(3), np.full(3, 4.0))) for p in new.numpy()]
    np.testing.assert_allclose(distance.score(new).numpy(), expected, rtol=0.05)


def test_classes_may_be_missing_and_features_may_lie_in_a_plane() -> None:
    x = torch.randn(200, 2) @ torch.randn(2, 6)
    distance = FeatureDistance().fit(x, torch.where(torch.arange(200) < 90, 0, 3))
    assert bool(distance.score(x + 100 * torch.randn(6)).min() > distance.score(x).max())


def test_errors_name_the_cause() -> None:
    with pytest.raises(RuntimeError, match="not fitted"):
        FeatureDistance().score(torch.zeros(2, 3))
    fitted = FeatureDistance().fit(torch.randn(10, 3), torch.arange(10) % 2)
    with pytest.raises(ValueError, match="size 4, but the distance was fitted to 3"):
        fitted.score(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="finite, of shape"):
        fitted.score(torch.full((2, 3), torch.nan))


@pytest.mark.parametrize("padded", [False, True])
def test_features_are_what_the_cell_gives_at_the_end(padded: bool) -> None:
    x, lengths = torch.randn(6, 9, 3), torch.tensor([9, 3, 1, 7, 2, 9]) if padded else None
    for readout in ("state", "cell"):
        torch.manual_seed(0)
        model = SequenceClassifier(STTauLSTM(3, 8, 4, readout=readout), 2, dropout=0.5)
        found = features(model, x, lengths, samples=3, seed=5)
        noise = Noise.of(fingerprint(x, lengths), 3, 5)
        cell = STTauLSTM(3, 8, 4, batch_first=True, readout="cell")
        cell.load_state_dict(model.layer.state_dict())
        with torch.no_grad():
            want = cell.features(x, lengths, noise=noise, steps="last").view(3, 6, 8).mean(0)
        torch.testing.assert_close(found, want)
        assert model.layer.readout == readout


def test_all_kinds_of_networks_have_features() -> None:
    x = torch.randn(5, 4, 3)
    plain = SequenceClassifier(nn.LSTM(3, 8, bidirectional=True), 2)
    assert features(plain, x).shape == (5, 16)
    assert features(SequenceClassifier(BayesLSTM(3, 8), 2), x).shape == (5, 8)
    assert features(SequenceClassifier(STTauGRU(3, 8, 4, mode="exact"), 2), x).shape == (5, 8)
    assert features(DeepEnsemble([plain, plain]), x).shape == (5, 32)
