from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn

import sttau
from sttau import DeepEnsemble, SequenceClassifier, SequenceRegressor, STTauGRU
from sttau.metrics import negative_log_likelihood


def data(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Series whose class is that of their sum in two cases of three."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(300, 5, 2, generator=generator)
    y = (x.sum((1, 2)) > 0).long()
    flip = torch.rand(300, generator=generator) < 1 / 3
    return x, torch.where(flip, 1 - y, y)


def overconfident(kind: str) -> Any:
    torch.manual_seed(0)
    if kind == "ensemble":
        return DeepEnsemble.of(lambda: SequenceClassifier(nn.GRU(2, 8), 2), size=3)
    mode = "exact" if kind == "exact" else "soft"
    return SequenceClassifier(STTauGRU(2, 8, num_states=4, mode=mode), 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["soft", "exact", "ensemble"])
def test_the_temperature_lowers_the_nll_and_is_kept_in_the_model(kind: str, tmp_path: Path) -> None:
    model, (x, y) = overconfident(kind), data()
    with torch.no_grad():
        for member in model.members:
            member.head.weight.mul_(40)
    before = sttau.predict(model, x)
    sttau.calibrate(model, x, y)
    after = sttau.predict(model, x)
    assert negative_log_likelihood(after.mean, y) < 0.95 * negative_log_likelihood(before.mean, y)
    assert model.members[0].logit_temperature > 2
    again = sttau.load(model.save(tmp_path / "model.safetensors"))
    found = sttau.predict(again, x)
    assert torch.equal(found.mean, after.mean)
    assert torch.equal(found.abstain, after.abstain)
    assert torch.equal(found.is_ood, after.is_ood)
    assert torch.equal(found.prediction_set(0.8), after.prediction_set(0.8))
    assert again.decisions.abstention == model.decisions.abstention


def test_the_best_temperature_of_exact_inference_is_found() -> None:
    model, (x, y) = overconfident("exact"), data()
    with torch.no_grad():
        model.head.weight.mul_(40)
    sttau.calibrate(model, x, y)
    best = negative_log_likelihood(sttau.predict(model, x).mean, y)
    for factor in (0.25, 0.5, 2.0, 4.0):
        model.logit_temperature *= factor
        assert negative_log_likelihood(sttau.predict(model, x).mean, y) > best - 0.01  # as far as the prior moves it
        model.logit_temperature /= factor


def test_training_does_not_see_the_temperature() -> None:
    model, (x, y) = overconfident("soft"), data()
    torch.manual_seed(1)
    expected = model.loss(x, y)
    model.members[0].logit_temperature = 5.0
    torch.manual_seed(1)
    assert torch.equal(model.loss(x, y), expected)


def test_thresholds_can_be_changed_without_the_data() -> None:
    model, (x, y) = overconfident("soft"), data()
    sttau.calibrate(model, x, y, coverage=0.5)
    assert int((~sttau.predict(model, x).abstain).sum()) == 150
    chosen = model.set_abstention(coverage=0.7)
    assert chosen.coverage == pytest.approx(0.7)
    assert int((~sttau.predict(model, x).abstain).sum()) == 210
    model.set_ood_threshold(false_alarms=0.2)
    assert float(sttau.predict(model, x).is_ood.double().mean()) <= 0.2


def test_conformal_sets_hold_the_true_class_on_new_data() -> None:
    model, (x, y) = overconfident("soft"), data()
    sttau.calibrate(model, x, y)
    new_x, new_y = data(seed=1)
    sets = sttau.predict(model, new_x).prediction_set(0.8)
    covered = sets.gather(1, new_y[:, None]).double().mean()
    assert 0.7 < covered < 0.9


def test_a_regressor_gets_intervals_and_abstains() -> None:
    torch.manual_seed(0)
    x, _ = data()
    y = x.sum((1, 2)) + torch.randn(300, generator=torch.Generator().manual_seed(5))
    model = SequenceRegressor(nn.GRU(2, 8), variance=True)
    sttau.calibrate(model, x[:150], y[:150], coverage=0.9)
    found = sttau.predict(model, x[150:])
    low, high = found.interval(0.8)
    covered = ((y[150:, None] >= low) & (y[150:, None] <= high)).double().mean()
    assert 0.7 < covered < 0.9
    assert found.abstain.shape == (150,)
    assert {"abstain", "is_ood"} <= set(found.numpy())
    with pytest.raises(ValueError, match="give a coverage"):
        model.set_abstention(risk=0.1)


def test_a_model_that_is_not_calibrated_says_so() -> None:
    model, (x, _) = overconfident("soft"), data()
    found = sttau.predict(model, x)
    for name in ("abstain", "is_ood"):
        with pytest.raises(ValueError, match=r"call sttau\.calibrate"):
            getattr(found, name)
    with pytest.raises(ValueError, match="not calibrated"):
        model.set_abstention(risk=0.1)
    assert "abstain" not in found.numpy()


def test_a_few_correct_predictions_do_not_make_the_model_certain() -> None:
    x = torch.randn(12, 4, 1, generator=torch.Generator().manual_seed(0))
    model = SequenceClassifier(nn.GRU(1, 8), 2)
    with torch.no_grad():
        model.head.weight.mul_(50)
    p = sttau.predict(model, x)
    assert negative_log_likelihood(p.mean, p.label) < 0.2
    sttau.calibrate(model, x, p.label)  # all correct
    assert 0.3 < model.logit_temperature < 1


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_sets_of_every_kind_hold_the_class_and_travel_with_the_model(score: Any, tmp_path: Path) -> None:
    model = overconfident("soft")
    parts = [data(seed) for seed in range(12)]
    x, y = (torch.cat(values) for values in zip(*parts, strict=True))
    sttau.calibrate(model, x[:1200], y[:1200])
    p = sttau.predict(model, x[1200:])
    for by_class in (False, True):
        held = p.prediction_set(0.8, score=score, by_class=by_class).gather(1, y[1200:, None])[:, 0]
        error = (0.16 / (600 if by_class else 1200) + 0.16 / 2400) ** 0.5  # of calibration and of test data
        assert float(held.double().mean()) == pytest.approx(0.8, abs=4 * error)
    again = sttau.load(model.save(tmp_path / "model.safetensors"))
    found = sttau.predict(again, x[1200:]).prediction_set(0.8, score=score, by_class=True)
    assert torch.equal(found, p.prediction_set(0.8, score=score, by_class=True))
    alone = sttau.predict(model, x[1300:1310]).prediction_set(0.8, score="aps")
    assert torch.equal(alone, p.prediction_set(0.8, score="aps")[100:110])


def test_each_output_of_a_regressor_has_its_own_interval() -> None:
    torch.manual_seed(0)
    model = SequenceRegressor(STTauGRU(2, 8, num_states=4), 2, variance=True)
    x = torch.randn(2000, 5, 2)
    y = torch.randn(2000, 2) * torch.tensor([1.0, 5.0])
    sttau.calibrate(model, x[:1000], y[:1000])
    low, high = sttau.predict(model, x[1000:]).interval(0.8, together=False)
    held = (low <= y[1000:]) & (y[1000:] <= high)
    assert held.double().mean(0).tolist() == pytest.approx([0.8, 0.8], abs=0.05)
    wide = sttau.predict(model, x[1000:]).interval(0.8)
    assert bool((wide[1] - wide[0] > high - low)[:, 0].all())


def test_dropout_of_a_model_in_training_mode_has_no_part_in_it() -> None:
    """Regression: the temperature of exact inference was fitted to logits with dropout."""
    model = SequenceClassifier(STTauGRU(2, 8, num_states=4, mode="exact"), 2, dropout=0.5)
    x, y = data()
    found = []
    for training in (True, True, False):
        sttau.calibrate(model.train(training), x, y)
        found.append(model.logit_temperature)
    assert found[0] == found[1] == found[2]


def test_the_temperature_of_an_exact_ensemble_is_the_best_one() -> None:
    """Regression: it was fitted to the members' probabilities, but scales the logits of their states."""
    torch.manual_seed(0)
    model = DeepEnsemble.of(lambda: SequenceClassifier(STTauGRU(2, 8, num_states=4, mode="exact"), 2), size=3)
    x, y = data()
    members = [cast(SequenceClassifier, member) for member in model.members]
    for member in members:
        with torch.no_grad():
            member.head.weight.mul_(60)
    sttau.calibrate(model, x, y)

    def nll(temperature: float) -> float:
        for member in members:
            member.logit_temperature = temperature
        return negative_log_likelihood(sttau.predict(model, x).mean, y)

    chosen = members[0].logit_temperature
    assert nll(chosen) <= min(nll(chosen * factor) for factor in (0.7, 0.9, 1.1, 1.4)) + 1e-3


def test_intervals_of_a_model_without_a_variance_hold_the_target() -> None:
    """Regression: their width was 0."""
    torch.manual_seed(0)
    model = SequenceRegressor(nn.LSTM(2, 8), 2)
    x, y = torch.randn(800, 5, 2), torch.randn(800, 2) * torch.tensor([1.0, 5.0])
    sttau.calibrate(model, x[:400], y[:400])
    for together in (True, False):
        low, high = sttau.predict(model, x[400:]).interval(0.8, together=together)
        held = (low <= y[400:]) & (y[400:] <= high)
        held = held.all(1, keepdim=True) if together else held
        assert held.double().mean(0).tolist() == pytest.approx([0.8] * held.shape[1], abs=0.08)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"risk": 0.1, "coverage": 0.9}, "either risk or coverage"),
        ({"risk": 0.0}, r"risk must be in \(0, 1\]"),
        ({"false_alarms": 2.0}, "false_alarms"),
        ({"samples": 0}, "samples must be at least 1"),
    ],
)
def test_a_calibration_that_fails_leaves_the_model_as_it_was(options: dict[str, Any], words: str) -> None:
    model, (x, y) = overconfident("soft"), data()
    kept = sttau.calibrate(model, x, y, coverage=0.7)
    before = model.logit_temperature, kept.abstention
    with pytest.raises(ValueError, match=words):
        sttau.calibrate(model, x[:100], y[:100], **options)
    assert (model.logit_temperature, model.decisions, kept.abstention) == (before[0], kept, before[1])


def test_a_regressor_has_no_risk() -> None:
    with pytest.raises(ValueError, match="a regressor does not have; give a coverage"):
        sttau.calibrate(SequenceRegressor(nn.LSTM(2, 8)), torch.randn(50, 5, 2), torch.randn(50, 1), risk=0.1)
