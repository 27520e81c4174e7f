"""Every detector is fitted, scores, has a threshold, is saved with the model, and is used by ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import sttau
from sttau import DeepEnsemble, SequenceClassifier, SequenceRegressor, STTauGRU, STTauLSTM
from sttau.data import SequenceDataset
from sttau.inference import features
from sttau.metrics import detection
from sttau.ood import DETECTORS, SCORES, FeatureDistance, kept_detector, make_detector

NAMES = [*SCORES, *(name for name in DETECTORS if name not in ("prediction-score", "token-density", "unknown-tokens"))]


def series(count: int, shift: float = 0.0, seed: int = 0) -> SequenceDataset:
    """Two classes that differ in the sign of their mean."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 2
    x = 0.5 * torch.randn(count, 8, 3, generator=generator) + (y * 2 - 1)[:, None, None] * torch.tensor([1.0, 1, 0])
    lengths = torch.randint(4, 9, (count,), generator=generator)
    return SequenceDataset("made", "train", x + shift * torch.tensor([0, 0, 1.0]), lengths, y, ("a", "b"), "made up")


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    made = DeepEnsemble.of(lambda: SequenceClassifier(STTauLSTM(3, 16, 4, readout="cell"), 2), size=2)
    sttau.fit(made, series(200), updates=60, seed=0, progress=False)
    return made.eval()


@pytest.mark.parametrize("name", NAMES)
def test_a_detector_travels_with_the_model(name: str, model: Any, tmp_path: Path) -> None:
    train, held_out, new = series(200), series(100, seed=1), series(300, seed=2)
    detector = make_detector(name, samples=3).fit(model, train)
    detector.choose_threshold(model, held_out, false_alarms=0.1)
    assert float(detector.is_ood(model, new).double().mean()) <= 0.25  # 0.1, with 100 sequences and ties
    detector.keep(model)
    again = sttau.load(model.save(tmp_path / "model.safetensors"))
    found = kept_detector(again)
    assert found.threshold == detector.threshold
    assert torch.equal(found.score(again, new), detector.score(model, new))
    model.detector = None


@pytest.mark.parametrize("name", ["mahalanobis", "knn", "vim"])
def test_features_show_what_confidence_does_not(name: str, model: Any) -> None:
    """A feature that training data does not vary moves far; the class stays clear."""
    train, inside, outside = series(200), series(200, seed=1), series(200, shift=4, seed=2)
    scores = [make_detector(name).fit(model, train).score(model, data) for data in (inside, outside)]
    assert detection(*scores).auroc > 0.9


def test_scores_equal_their_formulas() -> None:
    torch.manual_seed(0)
    single = SequenceClassifier(nn.GRU(3, 6), 3).eval()
    x, train = torch.randn(20, 5, 3), torch.randn(50, 5, 3)
    with torch.no_grad():
        logits = single(x).double()
        h, known = (single.features(one).double().numpy() for one in (x, train))
    np.testing.assert_allclose(make_detector("energy").fit(single, train).score(single, x), -logits.logsumexp(-1), 1e-6)
    unit = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (h, known)]
    apart = np.sort(np.linalg.norm(unit[0][:, None] - unit[1][None], axis=-1), axis=1)
    np.testing.assert_allclose(make_detector("knn", neighbors=4).fit(single, train).score(single, x), apart[:, 3], 1e-6)
    weight, bias = (value.detach().double().numpy() for value in (single.head.weight, single.head.bias))
    limit = np.sort(known.ravel())[int(0.9 * known.size)]
    clipped = np.minimum(h, limit) @ weight.T + bias
    found = make_detector("react").fit(single, train).score(single, x)
    np.testing.assert_allclose(found, -np.log(np.exp(clipped).sum(1)), 1e-6)
    origin = -np.linalg.pinv(weight) @ bias
    _, _, directions = np.linalg.svd(known - origin)
    residual = directions[3:].T
    scale = (known @ weight.T + bias).max(1).mean() / np.linalg.norm((known - origin) @ residual, axis=1).mean()
    virtual = scale * np.linalg.norm((h - origin) @ residual, axis=1)
    found = make_detector("vim").fit(single, train).score(single, x)
    np.testing.assert_allclose(found, max(scale, 0) / scale * virtual - logits.logsumexp(-1).numpy(), 1e-5)


def test_mahalanobis_is_the_feature_distance(model: Any) -> None:
    train, new = series(200), series(10, seed=3)
    expected = FeatureDistance().fit(features(model, train), train.labels).score(features(model, new))
    assert torch.equal(make_detector("mahalanobis").fit(model, train).score(model, new), expected)


def test_the_share_of_unknown_tokens_ignores_padding() -> None:
    text = SequenceClassifier(STTauGRU(4, 8, 3), 2, nn.Embedding(5, 4))
    detector = make_detector("unknown-tokens").fit(text, torch.tensor([[2, 3, 4]]))
    found = detector.score(text, torch.tensor([[1, 3, 1, 1], [2, 3, 1, 4]]), torch.tensor([2, 4]))
    assert found.tolist() == [0.5, 0.25]


def test_the_length_alone_separates_data_of_other_lengths(model: Any) -> None:
    long, short = series(50, seed=1), series(50, seed=1)
    detector = make_detector("length").fit(model, long)
    assert detection(detector.score(model, long), detector.score(model, short.inputs[:, :2])).auroc > 0.9


def test_what_does_not_fit_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match=r"detector must be one of max-probability, .* got 'mahalonobis'"):
        make_detector("mahalonobis")
    with pytest.raises(RuntimeError, match="is not fitted"):
        make_detector("knn").score(model, series(3))
    with pytest.raises(ValueError, match="needs a threshold"):
        make_detector("knn").fit(model, series(20)).is_ood(model, series(3))
    with pytest.raises(ValueError, match="reads features"):
        make_detector("unknown-tokens").fit(model, series(20))
    with pytest.raises(ValueError, match="has no detector"):
        kept_detector(SequenceClassifier(nn.LSTM(3, 4), 2))
    with pytest.raises(ValueError, match="for a regressor use mahalanobis"):
        make_detector("energy").fit(SequenceRegressor(nn.LSTM(3, 4)), torch.randn(5, 4, 3))
    values = SequenceRegressor(nn.LSTM(3, 4))
    assert make_detector("mahalanobis").fit(values, torch.randn(20, 4, 3)).score(
        values, torch.randn(2, 4, 3)
    ).shape == (2,)
