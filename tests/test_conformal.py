"""Sets and intervals hold the target as often as they say, and are those of MAPIE and crepes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sttau.conformal import (
    AdaptiveConformal,
    class_scores,
    conformal_quantile,
    label_scores,
    quantile_per_class,
    quantile_per_output,
    quantile_scores,
    residual_scores,
)


def examples(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities of three classes, one of them rare, and labels that are more often right than the model thinks."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(count, 3, generator=generator) + torch.tensor([1.0, 0.5, -1.5])
    labels = torch.multinomial((1.5 * logits).softmax(-1), 1, generator=generator)[:, 0]
    return logits.softmax(-1), labels


def uniform(count: int, seed: int) -> torch.Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_sets_hold_the_label_as_often_as_they_say(score: Any) -> None:
    (p, y), (new_p, new_y) = examples(4000, 0), examples(20_000, 1)
    for level in (0.7, 0.9, 0.95):
        threshold = conformal_quantile(label_scores(p, y, score, uniform(4000, 2)), level)
        held = label_scores(new_p, new_y, score, uniform(20_000, 3)) <= threshold
        assert float(held.double().mean()) == pytest.approx(level, abs=4 * (level * (1 - level) / 4000) ** 0.5 + 0.005)


def test_the_level_holds_for_every_class_where_each_has_its_own_threshold() -> None:
    (p, y), (new_p, new_y) = examples(6000, 0), examples(30_000, 1)
    held_alike = label_scores(new_p, new_y) <= conformal_quantile(label_scores(p, y), 0.9)
    own = quantile_per_class(label_scores(p, y), y, 3, 0.9)
    held = label_scores(new_p, new_y) <= own[new_y]
    assert float(held_alike[new_y == 2].double().mean()) < 0.8  # the rare class pays for the others
    for number in range(3):
        assert float(held[new_y == number].double().mean()) == pytest.approx(0.9, abs=0.04)


def test_aps_without_draws_is_the_sum_of_the_more_probable_classes() -> None:
    p, _ = examples(50, 0)
    found = class_scores(p, "aps").numpy()
    for row, scores in zip(p.double().numpy(), found, strict=True):
        for number in range(3):
            assert scores[number] == pytest.approx(row[row >= row[number]].sum(), abs=1e-12)
    inside = class_scores(p, "aps", torch.zeros(50))
    assert bool((inside.amin(1) == 0).all())


def test_lac_sets_are_those_of_mapie() -> None:
    mapie = pytest.importorskip("mapie.classification")
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Known(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """The probabilities are the input."""

        classes_ = np.arange(3)

        def fit(self, x: Any, y: Any) -> Any:
            return self

        def predict_proba(self, x: Any) -> Any:
            return x

        def predict(self, x: Any) -> Any:
            return x.argmax(1)

        def __sklearn_is_fitted__(self) -> bool:
            return True

    (p, y), (new_p, _) = examples(500, 0), examples(300, 1)
    p, new_p = p.double(), new_p.double()
    p, new_p = p / p.sum(1, keepdim=True), new_p / new_p.sum(1, keepdim=True)
    for level in (0.8, 0.95):
        made = mapie.SplitConformalClassifier(Known(), confidence_level=level, conformity_score="lac", prefit=True)
        sets = made.conformalize(p.numpy(), y.numpy()).predict_set(new_p.numpy())[1][:, :, 0]
        ours = class_scores(new_p) <= conformal_quantile(label_scores(p, y), level)
        assert (ours.numpy() == sets).all()


def test_class_conditional_sets_are_those_of_crepes() -> None:
    crepes = pytest.importorskip("crepes")
    (p, y), (new_p, _) = examples(500, 0), examples(300, 1)
    made = crepes.ConformalClassifier().fit(label_scores(p, y).numpy(), bins=y.numpy())
    every = class_scores(new_p).numpy()
    for level in (0.8, 0.9):
        bins = np.tile(np.arange(3), (300, 1))
        columns = [
            made.predict_set(every[:, [number]], bins=bins[:, number], confidence=level, smoothing=False)[:, 0]
            for number in range(3)
        ]
        ours = class_scores(new_p) <= quantile_per_class(label_scores(p, y), y, 3, level)
        assert (ours.numpy() == np.stack(columns, 1)).all()


def test_normalized_intervals_are_those_of_crepes() -> None:
    crepes = pytest.importorskip("crepes")
    generator = np.random.default_rng(0)
    mean, scale = generator.normal(size=400), generator.uniform(0.5, 2, 400)
    y = mean + scale * generator.normal(size=400)
    made = crepes.ConformalRegressor().fit(y[:200] - mean[:200], sigmas=scale[:200])
    low, high = made.predict_int(mean[200:], sigmas=scale[200:], confidence=0.9).T
    scores = residual_scores(*(torch.tensor(value[:200, None]) for value in (mean, scale, y)))
    (reach,) = quantile_per_output(scores, 0.9).tolist()
    np.testing.assert_allclose(low, mean[200:] - reach * scale[200:])
    np.testing.assert_allclose(high, mean[200:] + reach * scale[200:])


def test_quantile_intervals_hold_every_horizon() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(8000, 3, generator=generator).exp() * torch.tensor([1.0, 2.0, 5.0])  # skewed, and growing
    low, high = torch.zeros(8000, 3), torch.ones(8000, 3)  # poor quantiles
    reach = quantile_per_output(quantile_scores(low[:3000], high[:3000], y[:3000]), 0.8)
    held = (y[3000:] >= low[3000:] - reach) & (y[3000:] <= high[3000:] + reach)
    assert held.double().mean(0).tolist() == pytest.approx([0.8] * 3, abs=0.03)


def test_an_adaptive_level_keeps_its_coverage_while_the_data_changes() -> None:
    generator = torch.Generator().manual_seed(0)
    calibration = torch.randn(500, generator=generator).abs()
    drift = torch.linspace(1, 3, 4000)
    new = torch.randn(4000, generator=generator).abs() * drift
    adaptive, held, fixed = AdaptiveConformal(0.9, rate=0.02), [], []
    for score in new.tolist():
        held.append(score <= conformal_quantile(calibration, adaptive.level))
        fixed.append(score <= conformal_quantile(calibration, 0.9))
        adaptive.update(held[-1])
    assert np.mean(held) == pytest.approx(0.9, abs=1 / (0.02 * 4000) + 0.001)  # Gibbs & Candès, proposition 4.1
    assert np.mean(fixed) < 0.75
    again = AdaptiveConformal()
    again.load_state_dict(adaptive.state_dict())
    assert again.level == adaptive.level


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="score must be one of 'lac', 'aps', got 'raps'"):
        class_scores([[0.5, 0.5]], "raps")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        AdaptiveConformal(1.0)
    with pytest.raises(ValueError, match="rate must be positive"):
        AdaptiveConformal(rate=0)


def test_one_output_may_have_one_axis_and_shapes_must_agree() -> None:
    """Regression: (predictions, 1) and (predictions,) were broadcast to (predictions, predictions)."""
    low, high, y = torch.zeros(5, 1), torch.ones(5, 1), torch.arange(5.0)
    assert quantile_scores(low, high, y).flatten().tolist() == [0, 0, 1, 2, 3]
    assert residual_scores(low, 2.0, y).flatten().tolist() == [0, 0.5, 1, 1.5, 2]
    with pytest.raises(ValueError, match=r"low, high, targets must have one shape.*targets \(4, 1\)"):
        quantile_scores(low, high, y[:4])
    with pytest.raises(ValueError, match="mean, scale, targets must have one shape"):
        residual_scores(torch.zeros(5, 2), torch.ones(5, 1), torch.zeros(5, 2))


@pytest.mark.parametrize("level", [90, -0.1, float("nan")])
def test_a_level_is_a_probability(level: float) -> None:
    with pytest.raises(ValueError, match="level must be a probability from 0 to 1"):
        conformal_quantile(torch.rand(10), level)
