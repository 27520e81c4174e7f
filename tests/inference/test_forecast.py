from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import (
    BayesLSTM,
    DeepEnsemble,
    SequenceClassifier,
    SequenceRegressor,
    STTauGRU,
    STTauLSTM,
    fit,
    forecast,
    load,
    predict,
)
from sttau import VariationalDropoutLSTM as Dropout
from sttau.data import windows

_SMALL = 0.01  # an input scaled so passes through tanh unchanged


def autoregression(slope: float, noise: float, known: float | None = None) -> SequenceRegressor:
    """A network that is x' = slope · x + noise · ε, with ``known`` times a second feature."""
    features = 1 if known is None else 2
    model = SequenceRegressor(nn.LSTM(features, 1), variance=True).double()
    weights = dict(model.layer.get_submodule("rnn").named_parameters())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        weights["weight_ih_l0"][2, 0] = _SMALL
        if known is not None:
            weights["weight_ih_l0"][2, 1] = _SMALL * known / slope
        weights["bias_ih_l0"].copy_(torch.tensor([50.0, -50.0, 0.0, 50.0]))  # the gates: in, forget, -, out
        model.head.weight[0] = slope / _SMALL
        model.head.bias[1] = math.log(math.expm1(noise**2))
    return model


def phi(x: Tensor) -> Tensor:
    share: Tensor = torch.special.ndtr(x)
    return share


@pytest.mark.parametrize("slope", [0.9, -0.5])
def test_paths_of_an_autoregression_have_its_known_distribution(slope: float) -> None:
    start = torch.tensor([-2.0, 0.0, 3.0], dtype=torch.float64)
    answer = forecast(autoregression(slope, 0.5), start[:, None, None], steps=8, samples=4000)
    ahead = torch.arange(1, 9, dtype=torch.float64)
    mean = start[:, None] * slope**ahead
    deviation = 0.5 * ((1 - slope ** (2 * ahead)) / (1 - slope**2)).sqrt()
    assert float(((answer.mean[..., 0] - mean) / deviation).abs().max()) < 4 / math.sqrt(4000)
    assert float((answer.variance[..., 0] / deviation**2 - 1).abs().max()) < 4 * math.sqrt(2 / 4000)
    for level in (0.5, 0.8, 0.95):
        low, high = (bound[..., 0] for bound in answer.interval(level))
        held = phi((high - mean) / deviation) - phi((low - mean) / deviation)  # under the true distribution
        assert float((held - level).abs().max()) < 0.03
    together = answer.paths[:, :, :, 0] - answer.mean[..., 0]
    next_door = (together[..., :-1] * together[..., 1:]).mean(0) / answer.variance[:, :-1, 0]
    assert float((next_door - slope).abs().max()) < 0.1  # each step follows from the one before on its own path


def test_what_is_known_of_the_future_is_read() -> None:
    model = autoregression(0.5, 1e-3, known=2.0)
    known = torch.tensor([[[1.0], [-1.0], [0.0]]], dtype=torch.float64)
    history = torch.tensor([[[0.0, 1.0]]], dtype=torch.float64)
    answer = forecast(model, history, steps=3, samples=3, known=known)
    assert answer.mean[0, :, 0].tolist() == pytest.approx([2.0, -1.0, -0.5], abs=0.01)
    with pytest.raises(ValueError, match="known begins with 1 for its feature 0 of series 0, but the last row of hist"):
        forecast(model, torch.zeros(1, 1, 2), steps=3, known=known)  # what was known about the present


def test_a_promotion_changes_the_sales_of_its_own_day() -> None:
    """Sales y = 0.5 y before + 2 promotion + noise; windows, forecast and its known features agree on the time."""
    source = torch.Generator().manual_seed(0)
    promotion = (torch.rand(460, generator=source, dtype=torch.float64) < 0.3).double()
    shocks = 0.2 * torch.randn(460, generator=source, dtype=torch.float64)
    sales = [0.0]
    for shock, promoted in zip(shocks[1:].tolist(), promotion[1:].tolist(), strict=True):
        sales.append(0.5 * sales[-1] + 2 * promoted + shock)
    cut = windows(sales[:400], length=1, known=promotion)
    model = autoregression(0.5, 0.2, known=2.0)
    noise_floor = 0.2 * math.sqrt(2 / math.pi)
    assert float((predict(model, cut.inputs).mean - cut.targets).abs().mean()) == pytest.approx(noise_floor, rel=0.1)
    assert cut.history is not None
    answer = forecast(model, cut.history, steps=60, samples=200, known=promotion[None, 400:, None])
    error = (answer.mean[0, :, 0] - torch.tensor(sales[400:])).abs().mean()
    assert float(error) < 1.3 * noise_floor / math.sqrt(1 - 0.5**2)  # of the stationary distribution


def test_windows_of_another_target_are_continued_by_that_target() -> None:
    series = torch.stack([torch.full((50,), 9.0), 0.5 ** torch.arange(50.0)], dim=1).double()
    cut = windows(series, length=3, target=1)
    assert cut.history is not None
    model = autoregression(0.5, 1e-6, known=0.0)
    answer = forecast(model, cut.inputs[:1], steps=3, samples=2, known=torch.full((1, 3, 1), 9.0))
    torch.testing.assert_close(answer.mean[0, :, 0], series[3:6, 1], rtol=0, atol=0.01)  # 4.5 from the other


def test_values_beyond_the_training_range_are_warned_of(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    trend = torch.arange(60.0)
    cut = windows(trend, length=5)
    model = SequenceRegressor(STTauGRU(1, 4, 2))
    fit(model, cut.inputs[:20], cut.targets[:20], updates=1)
    again = load(model.save(tmp_path / "model.safetensors"))
    forecast(again, cut.inputs[:20], steps=2, samples=2)
    assert not caplog.records
    forecast(again, cut.inputs[18:22], steps=2, samples=2)
    assert "2 of 4 series are outside the range of training: feature 0 of series 2 is 24, training had 0 to 23" in (
        caplog.text
    )


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(1, 6),
        STTauLSTM(1, 6, 3),
        STTauGRU(1, 6, 3, mode="exact"),
        Dropout(1, 6, dropout=0.4, input_dropout=0.0),
        BayesLSTM(1, 6, rho=-1.0),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_one_step_is_what_predict_says(layer: nn.Module) -> None:
    model = SequenceRegressor(layer, variance=True)
    x = torch.randn(2, 5, 1)
    runs = 300 if isinstance(layer, BayesLSTM) else 2000
    answer, said = forecast(model, x, 1, samples=runs), predict(model, x, samples=runs)
    error = ((answer.mean[:, 0] - said.mean) / (said.variance / runs).sqrt()).abs()
    assert float(error.max()) < 4
    torch.testing.assert_close(answer.variance[:, 0], said.variance, rtol=4 * math.sqrt(2 / runs), atol=0)


@pytest.mark.parametrize("layer", [Dropout(1, 6, dropout=0.5, input_dropout=0.0), BayesLSTM(1, 6, rho=0.0)])
def test_a_path_is_made_by_one_model(layer: nn.Module) -> None:
    """Where nothing but the model is drawn, paths are as far apart as models, and one path repeats itself."""
    model = SequenceRegressor(layer)
    model.layer.weight_ih_l0.data.zero_()  # type: ignore[operator]
    answer = forecast(model, torch.zeros(1, 4, 1), steps=3, samples=5).paths[:, 0, :, 0]
    if isinstance(layer, Dropout):
        torch.testing.assert_close(answer, answer[:, :1].expand(5, 3))
    assert len(answer[:, 0].unique()) > 1


def test_samples_are_per_member_of_an_ensemble() -> None:
    members = [autoregression(0.5, 1e-3), autoregression(-0.5, 1e-3)]
    answer = forecast(DeepEnsemble(members), torch.ones(1, 1, 1), steps=2, samples=3)
    ends = answer.paths[:, 0, :, 0]
    assert ends[:, 0].tolist() == pytest.approx([0.5] * 3 + [-0.5] * 3, abs=0.01)
    assert ends[:, 1].tolist() == pytest.approx([0.25] * 6, abs=0.01)
    assert len((ends[:, 0].abs() - 0.5).unique()) == 6  # noise of their own


def test_paths_do_not_depend_on_the_batch() -> None:
    model = SequenceRegressor(STTauLSTM(1, 6, 3), variance=True)
    x = torch.randn(3, 5, 1)
    whole, alone = forecast(model, x, 4, samples=6, seed=3), forecast(model, x[1:2], 4, samples=6, seed=3)
    torch.testing.assert_close(whole.paths[:, 1:2], alone.paths)
    assert not torch.equal(whole.paths, forecast(model, x, 4, samples=6, seed=4).paths)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"samples": 0}, "samples must be"),
        ({"history": torch.full((1, 2, 2), torch.nan)}, "inputs hold NaN"),
        ({"known": None}, r"pass known=\(batch, steps, 1\)"),
        ({"known": torch.zeros(1, 2, 1)}, r"known must have shape \(1, 3, 1\)"),
        ({"known": torch.full((1, 3, 1), torch.nan)}, "known holds NaN"),
        ({"model": SequenceRegressor(nn.LSTM(2, 2), num_outputs=3)}, "its output is no input"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "model": autoregression(0.5, 1.0, known=1.0),
        "history": torch.zeros(1, 2, 2),
        "steps": 3,
        "known": torch.zeros(1, 3, 1),
    }
    with pytest.raises(ValueError, match=message):
        forecast(**(given | change))


def test_a_classifier_and_impossible_shares_are_refused() -> None:
    with pytest.raises(TypeError, match="forecast needs a SequenceRegressor"):
        forecast(SequenceClassifier(nn.LSTM(1, 2), 2), torch.zeros(1, 2, 1), 3)
    answer = forecast(autoregression(0.5, 1.0), torch.zeros(1, 1, 1), 2, samples=3)
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        answer.quantile(1.0)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        answer.interval(0.0)


def test_equal_series_have_paths_of_their_own() -> None:
    model = SequenceRegressor(STTauLSTM(1, 8, num_states=4), variance=True)
    x = torch.zeros(50, 6, 1)
    paths = forecast(model, x, steps=3, samples=2).paths[..., 0].flatten(0, 1)
    assert len(paths.unique(dim=0)) == 100
    alone = forecast(model, x[:1], steps=3, samples=2).paths
    assert torch.equal(forecast(model, x, steps=3, samples=2).paths[:, :1], alone)
