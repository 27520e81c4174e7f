from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sttau
from sttau.metrics import detection
from sttau.ood import SCORES, entropy_score, max_probability_score, mutual_information_score, variance_score


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 5), st.integers(2, 5))
def test_scores_equal_their_formulas_one_prediction_at_a_time(seed: int, samples: int, size: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    p = (3 * torch.randn(samples, size, classes, generator=generator, dtype=torch.float64)).softmax(-1)

    def bits(row: list[float]) -> float:
        return -sum(v * math.log2(v) for v in row)

    for i in range(size):
        rows = p[:, i].tolist()
        mean = [sum(column) / samples for column in zip(*rows, strict=True)]
        tops = [max(row) for row in rows]
        middle = sum(tops) / samples
        assert max_probability_score(p)[i] == pytest.approx(1 - max(mean))
        assert variance_score(p)[i] == pytest.approx(sum((t - middle) ** 2 for t in tops) / samples)
        assert entropy_score(p)[i] == pytest.approx(bits(mean))
        assert mutual_information_score(p)[i] == pytest.approx(bits(mean) - sum(map(bits, rows)) / samples, abs=1e-9)


def test_a_prediction_and_its_samples_have_the_same_scores() -> None:
    model = sttau.SequenceClassifier(sttau.STTauLSTM(3, 8, num_states=4), num_classes=3)
    p = sttau.predict(model, torch.randn(6, 5, 3), samples=7, keep_samples=True)
    for name, score in SCORES.items():
        assert torch.allclose(score(p).double(), score(p.samples), atol=1e-6), name
        assert score(p).shape == (6,)


def test_every_score_is_larger_where_samples_are_unsure_than_where_they_agree_and_are_sure() -> None:
    sure = torch.tensor([[[0.99, 0.01]]] * 4)
    unsure = torch.tensor([[[0.9, 0.1]], [[0.2, 0.8]], [[0.55, 0.45]], [[0.3, 0.7]]])
    for name, score in SCORES.items():
        assert detection(score(sure), score(unsure)).auroc == 1, name


def test_samples_that_are_each_sure_of_another_class_differ_in_mutual_information_but_not_in_the_maximum() -> None:
    p = torch.eye(2)[:, None, :]
    assert variance_score(p).item() == 0
    assert mutual_information_score(p).item() == 1
    assert max_probability_score(p).item() == 0.5


def test_a_single_sample_has_no_mutual_information_and_probabilities_without_samples_are_one() -> None:
    p = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    assert mutual_information_score(p).tolist() == [0, 0]
    assert entropy_score(p).tolist() == [1, 0]
    for samples in (p, p[None]):
        with pytest.raises(ValueError, match="at least 2 samples, got 1"):
            variance_score(samples)


def test_exact_inference_has_all_scores_but_the_variance_over_runs() -> None:
    model = sttau.SequenceClassifier(sttau.STTauGRU(3, 8, num_states=4), num_classes=3)
    p = sttau.predict(model, torch.randn(6, 5, 3), mode="exact")
    assert torch.equal(mutual_information_score(p), p.epistemic)
    with pytest.raises(ValueError, match="keep_samples=True"):
        variance_score(p)


@pytest.mark.parametrize("name", SCORES)
def test_what_is_no_probability_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="probabilities must lie in"):
        SCORES[name]([[[2.0, -1.0]], [[0.5, 0.5]]])
    with pytest.raises(ValueError, match="probabilities must lie in"):
        SCORES[name]([[[math.nan, 0.5]], [[0.5, 0.5]]])
    with pytest.raises(ValueError, match="probabilities must be"):
        SCORES[name]([0.5, 0.5])
