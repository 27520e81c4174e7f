from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import sttau
from sttau.calibration import IsotonicScaling, Scaling, TemperatureScaling, VectorScaling, restore_scaling, to_logits
from sttau.metrics import calibration_error, negative_log_likelihood

KINDS = [TemperatureScaling, VectorScaling, IsotonicScaling]


def _loss(log_probabilities: Tensor, labels: Tensor) -> float:
    return float(-log_probabilities.gather(1, labels[:, None]).mean())


def _plain(logits: Tensor, temperature: float, labels: Tensor) -> float:
    """The likelihood of the averaged probability, straight from its definition."""
    samples = logits if logits.dim() == 3 else logits[None]
    p = torch.stack([(sample.double() / temperature).softmax(-1) for sample in samples]).mean(0)
    return negative_log_likelihood(p, labels)


def _data(seed: int, samples: int, size: int, classes: int, scale: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (size,), generator=generator)
    signal = nn.functional.one_hot(y, classes) + torch.randn(size, classes, generator=generator, dtype=torch.float64)
    return scale * (signal + torch.randn(samples, size, classes, generator=generator, dtype=torch.float64)), y


@cache
def _digits(layer: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Validation and test logits, (samples, n, 10), and labels of a small network trained on real digits."""
    torch.manual_seed(0)
    rnn = sttau.STTauLSTM(8, 32, num_states=10, readout="cell") if layer == "st-tau" else nn.LSTM(8, 32)
    model = sttau.SequenceClassifier(rnn, num_classes=10)
    train, validation, test = (sttau.data.load("digits", part) for part in ("train", "validation", "test"))
    sttau.training.fit(model, train.inputs, train.labels, updates=150, learning_rate=0.02)
    logits = [to_logits(sttau.predict(model, d.inputs, samples=5, keep_samples=True)) for d in (validation, test)]
    return logits[0], validation.labels, logits[1], test.labels


@pytest.mark.parametrize("layer", ["st-tau", "lstm"])
@pytest.mark.slow
def test_on_real_digits_temperature_scaling_never_worsens_validation_likelihood(layer: str) -> None:
    logits, y, _, _ = _digits(layer)
    assert len(logits) == (5 if layer == "st-tau" else 1)
    before, after = (
        _plain(logits, 1, y),
        negative_log_likelihood(TemperatureScaling().fit(logits, y).probabilities(logits), y),
    )
    assert after <= before
    assert negative_log_likelihood(VectorScaling().fit(logits, y).probabilities(logits), y) <= after


@pytest.mark.parametrize("layer", ["st-tau", "lstm"])
@pytest.mark.slow
def test_on_real_digits_made_overconfident_scaling_recalibrates_the_test_data_too(layer: str) -> None:
    logits, y, new, labels = _digits(layer)
    sharp = TemperatureScaling(1 / 4)
    for kind in KINDS:
        scaled = kind().fit(4 * logits, y)
        assert calibration_error(scaled.probabilities(4 * new), labels) < calibration_error(
            sharp.probabilities(new), labels
        )


@given(
    st.integers(0, 10_000),
    st.integers(1, 4),
    st.integers(1, 30),
    st.integers(2, 5),
    st.sampled_from([1e-3, 1, 30, 1e4]),
)
def test_the_likelihood_never_gets_worse_whatever_the_logits(
    seed: int, samples: int, size: int, classes: int, scale: float
) -> None:
    z, y = _data(seed, samples, size, classes, scale)
    same, best, vector = TemperatureScaling(), TemperatureScaling().fit(z, y), VectorScaling().fit(z, y)
    before, after = _loss(same.log_probabilities(z), y), _loss(best.log_probabilities(z), y)
    assert after <= before
    assert _loss(vector.log_probabilities(z), y) <= after + 1e-12


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        ([[5.0, 0.0], [0.0, 5.0]], [0, 1]),  # separable: the best T is 0
        ([[5.0, 0.0], [0.0, 5.0]], [1, 0]),  # always wrong: the best T is ∞
        ([[1e6, 0.0], [0.0, 1e6], [1e6, 0.0]], [0, 1, 1]),
        ([[1e-9, 0.0], [0.0, 1e-9]], [0, 1]),
        ([[3.0, 3.0]], [0]),  # no spread: every T is as good
        ([[700.0, -700.0]] * 3, [0, 0, 1]),
        ([[0.0, 0.0], [1e8, 0.0]], [0, 0]),
    ],
)
def test_adversarial_logits_are_survived(logits: list[list[float]], labels: list[int]) -> None:
    z, y = torch.tensor(logits, dtype=torch.float64), torch.tensor(labels)
    before = _loss(TemperatureScaling().log_probabilities(z), y)
    for kind in (TemperatureScaling, VectorScaling):
        after = kind().fit(z, y).log_probabilities(z)
        assert bool(after.isfinite().all())
        assert _loss(after, y) <= before
    assert TemperatureScaling().fit(z, y).temperature > 0


@pytest.mark.parametrize("samples", [1, 4])
def test_the_temperature_is_the_best_of_a_fine_grid(samples: int) -> None:
    z, y = _data(0, samples, 200, 4, 3.0)
    scaling = TemperatureScaling().fit(z, y)
    grid = np.geomspace(0.05, 50, 2000)
    losses = [_plain(z, t, y) for t in grid]
    assert _plain(z, scaling.temperature, y) <= min(losses)
    assert scaling.temperature == pytest.approx(grid[int(np.argmin(losses))], rel=0.004)


def test_the_better_of_two_valleys_is_taken() -> None:
    """The mean of samples that disagree has a ridge: from T = 1 the loss falls towards ∞, but the best T is small."""
    lead = 0.05 * torch.tensor([[1.0, -10.0]] * 40 + [[1.0, 1.0]] * 19 + [[-1.0, -1.0]], dtype=torch.float64).T
    z, y = torch.stack([lead, torch.zeros_like(lead)], -1), torch.zeros(60, dtype=torch.int64)
    assert _plain(z, 1, y) > _plain(z, 2, y) > _plain(z, 100, y)
    best = TemperatureScaling().fit(z, y).temperature
    assert best < 0.1
    assert _plain(z, best, y) <= min(_plain(z, t, y) for t in np.geomspace(1e-3, 1e3, 1000))


@pytest.mark.parametrize("factor", [0.01, 7.0, 1e4])
def test_the_temperature_scales_with_the_logits(factor: float) -> None:
    z, y = _data(1, 3, 100, 3, 2.0)
    assert TemperatureScaling().fit(factor * z, y).temperature == pytest.approx(
        factor * TemperatureScaling().fit(z, y).temperature, rel=1e-4
    )


@pytest.mark.slow
def test_the_truth_is_recovered_from_much_data() -> None:
    generator = torch.Generator().manual_seed(0)
    z = 2 * torch.randn(100_000, 3, generator=generator, dtype=torch.float64)
    weight, bias = torch.tensor([0.5, 1.0, 2.0]).double(), torch.tensor([0.3, 0.0, -0.3]).double()
    y = torch.multinomial((z / 1.7).softmax(-1), 1, generator=generator)[:, 0]
    assert TemperatureScaling().fit(z, y).temperature == pytest.approx(1.7, rel=0.02)
    y = torch.multinomial((z * weight + bias).softmax(-1), 1, generator=generator)[:, 0]
    fitted = VectorScaling().fit(z, y)
    assert fitted.weight is not None
    assert fitted.bias is not None
    assert torch.allclose(fitted.weight, weight, atol=0.04)
    assert torch.allclose(fitted.bias - fitted.bias[1], bias, atol=0.04)


def test_samples_are_scaled_before_they_are_averaged_and_the_average_is_fitted() -> None:
    z, y = _data(2, 5, 300, 3, 4.0)
    scaling = TemperatureScaling().fit(z, y)
    want = torch.stack([(sample / scaling.temperature).softmax(-1) for sample in z]).mean(0)
    assert torch.allclose(scaling.probabilities(z), want, atol=1e-12)
    one_by_one = TemperatureScaling().fit(z.flatten(0, 1), y.repeat(5))
    averaged_first = TemperatureScaling().fit(to_logits(z.softmax(-1).mean(0)), y)
    for other in (one_by_one, averaged_first):
        assert abs(other.temperature - scaling.temperature) > 0.05
        assert _plain(z, scaling.temperature, y) < _plain(z, other.temperature, y)


@pytest.mark.parametrize("kind", KINDS)
def test_one_run_and_a_repeated_run_are_the_same(kind: type[Scaling]) -> None:
    z, y = _data(3, 1, 60, 3, 2.0)
    alone, repeated = kind().fit(z[0], y), kind().fit(z.repeat(4, 1, 1), y)
    assert torch.allclose(alone.probabilities(z[0]), repeated.probabilities(z.repeat(4, 1, 1)), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_scaled_probabilities_are_probabilities(kind: type[Scaling]) -> None:
    z, y = _data(4, 3, 40, 4, 2.0)
    far = torch.cat([z, 1e3 * torch.randn(3, 40, 4, dtype=torch.float64)], 1)
    p = kind().fit(z, y).probabilities(far)
    assert p.shape == (80, 4)
    assert p.dtype == torch.float64
    assert bool(((p >= 0) & (p <= 1)).all())
    assert torch.allclose(p.sum(-1), torch.ones(80, dtype=torch.float64))


def test_isotonic_scaling_equals_scikit_learn_on_two_classes_and_cannot_worsen_its_own_data() -> None:
    from sklearn.isotonic import IsotonicRegression

    z, y = _data(5, 3, 200, 2, 4.0)
    p = z.softmax(-1).mean(0)
    oracle = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p[:, 1].numpy(), y.numpy())
    scaling = IsotonicScaling().fit(z, y)
    assert np.allclose(scaling.probabilities(z)[:, 1], oracle.predict(p[:, 1].numpy()), atol=1e-9)
    new, _ = _data(6, 3, 50, 2, 4.0)
    q = new.softmax(-1).mean(0)[:, 1].numpy()
    assert np.allclose(scaling.probabilities(new)[:, 1], oracle.predict(q), atol=1e-9)
    assert negative_log_likelihood(scaling.probabilities(z), y) <= negative_log_likelihood(p, y)


def test_isotonic_scaling_leaves_a_row_that_every_class_refuses() -> None:
    scaling = IsotonicScaling([[[0.5, 1.0], [0.0, 1.0]]] * 3)
    third = [1 / 3] * 3
    assert scaling.probabilities([[0.0, 0.0, 0.0]])[0].tolist() == pytest.approx(third)


@pytest.mark.parametrize("kind", KINDS)
def test_a_scaling_goes_through_json_and_back(kind: type[Scaling]) -> None:
    z, y = _data(7, 2, 50, 3, 2.0)
    scaling = kind().fit(z, y)
    again = restore_scaling(json.loads(json.dumps(scaling.state_dict())))
    assert type(again) is kind
    assert torch.equal(again.probabilities(z), scaling.probabilities(z))


def test_logits_of_a_prediction_are_its_samples_or_the_exact_mean() -> None:
    x = torch.randn(4, 5, 3)
    model = sttau.SequenceClassifier(sttau.STTauGRU(3, 8, num_states=4), num_classes=2)
    p = sttau.predict(model, x, samples=3, keep_samples=True)
    assert p.samples is not None
    assert torch.allclose(to_logits(p).softmax(-1), p.samples.double())
    with pytest.raises(ValueError, match="keep_samples=True"):
        to_logits(sttau.predict(model, x, samples=3))
    exact = sttau.predict(model, x, mode="exact")
    assert torch.allclose(to_logits(exact).softmax(-1), exact.mean.double())


def _classifier(kind: str) -> Any:
    if kind == "ensemble":
        return sttau.DeepEnsemble.of(lambda: sttau.SequenceClassifier(nn.LSTM(3, 8), num_classes=2), 3)
    layer = {"bayes": sttau.BayesLSTM, "dropout": sttau.VariationalDropoutLSTM}[kind](3, 8)
    return sttau.SequenceClassifier(layer, num_classes=2)


@pytest.mark.parametrize("kind", ["bayes", "dropout", "ensemble"])
def test_the_mean_of_samples_or_members_is_rejected_without_them(kind: str) -> None:
    model, x = _classifier(kind), torch.randn(4, 5, 3)
    with pytest.raises(ValueError, match=r"mean of 3 samples.*keep_samples=True"):
        to_logits(sttau.predict(model, x, samples=3))
    assert to_logits(sttau.predict(model, x, samples=3, keep_samples=True)).shape == (3, 4, 2)


def test_a_single_sample_needs_no_samples() -> None:
    x = torch.randn(4, 5, 3)
    for model in (sttau.SequenceClassifier(nn.LSTM(3, 8), num_classes=2), _classifier("bayes")):
        p = sttau.predict(model, x, samples=1)
        assert p.num_samples == 1
        assert torch.allclose(to_logits(p).softmax(-1), p.mean.double())


def test_logarithms_of_probabilities_are_as_good_as_the_networks_logits() -> None:
    z, y = _data(8, 3, 100, 4, 3.0)
    assert TemperatureScaling().fit(to_logits(z.softmax(-1)), y).temperature == pytest.approx(
        TemperatureScaling().fit(z, y).temperature, rel=1e-3
    )
    assert bool(to_logits([[1.0, 0.0]]).isfinite().all())


def test_one_example_and_labels_of_one_class_are_enough() -> None:
    for kind in KINDS:
        assert kind().fit([[1.0, 0.0]], [0]).probabilities([[1.0, 0.0]])[0, 0] >= math.e / (1 + math.e) - 1e-9
        assert kind().fit([[1.0, 0.0], [0.0, 1.0]], [0, 0]).probabilities([[1.0, 0.0]]).shape == (1, 2)


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        ([[math.nan, 0.0]], [0], "NaN or infinity"),
        ([[-math.inf, 0.0]], [0], "use to_logits"),
        ([1.0, 0.0], [0], "logits must be"),
        ([[1.0]], [0], "at least 2 classes"),
        (torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), "not empty"),
        ([[1.0, 0.0]], [2], "labels must be in 0 … 1"),
        ([[1.0, 0.0]], [0, 1], "labels must have shape"),
    ],
)
def test_bad_input_is_refused_by_name(logits: object, labels: object, message: str) -> None:
    for kind in KINDS:
        with pytest.raises(ValueError, match=message):
            kind().fit(logits, labels)


def test_an_unfitted_scaling_and_other_classes_and_states_are_refused() -> None:
    for kind in (VectorScaling, IsotonicScaling):
        with pytest.raises(ValueError, match="not fitted"):
            kind().probabilities([[1.0, 0.0]])
        with pytest.raises(ValueError, match="not fitted"):
            kind().state_dict()
        with pytest.raises(ValueError, match="logits have 3 classes"):
            kind().fit([[1.0, 0.0]], [0]).probabilities([[1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="temperature must be positive"):
        TemperatureScaling(0.0)
    with pytest.raises(ValueError, match="given together"):
        VectorScaling(weight=[1.0])
    with pytest.raises(ValueError, match="as its type"):
        restore_scaling({"temperature": 1.0})


def test_a_prediction_in_place_of_logits_is_refused_with_the_remedy() -> None:
    prediction = sttau.predict(sttau.SequenceClassifier(nn.LSTM(2, 4), 2), torch.randn(4, 3, 2))
    for call in (TemperatureScaling().probabilities, lambda given: VectorScaling().fit(given, [0, 1, 0, 1])):
        with pytest.raises(TypeError, match=r"got a Prediction; pass to_logits\(prediction\)"):
            call(prediction)
