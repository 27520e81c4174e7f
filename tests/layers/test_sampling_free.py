from __future__ import annotations

import pytest
import torch
from torch import nn

import sttau
from sttau.engine import Noise
from sttau.layers import SamplingFreeGRU
from sttau.layers.sampling_free import Moments, sigmoid, tanh


@pytest.mark.parametrize(("function", "exact"), [(sigmoid, torch.sigmoid), (tanh, torch.tanh)])
def test_moments_are_those_of_many_draws(function: object, exact: object) -> None:
    normal = torch.special.ndtri((torch.arange(20_001, dtype=torch.float64) + 0.5) / 20_001)
    for mean in (-2.0, 0.0, 1.0):
        for variance in (0.01, 0.5, 2.0):
            drawn = exact(mean + variance**0.5 * normal)  # type: ignore[operator]
            found = function(Moments(torch.tensor(mean), torch.tensor(variance)))  # type: ignore[operator]
            assert found.mean.item() == pytest.approx(drawn.mean().item(), abs=0.02)
            assert found.variance.item() == pytest.approx(drawn.var().item(), abs=0.05)


def test_products_and_sums_are_those_of_independent_values() -> None:
    torch.manual_seed(0)
    a, b = 1 + 0.5 * torch.randn(400_000), -2 + 0.3 * torch.randn(400_000)
    left, right = Moments(torch.tensor(1.0), torch.tensor(0.25)), Moments(torch.tensor(-2.0), torch.tensor(0.09))
    for found, drawn in ((left * right, a * b), (left + right, a + b)):
        assert found.mean.item() == pytest.approx(drawn.mean().item(), abs=0.01)
        assert found.variance.item() == pytest.approx(drawn.var().item(), rel=0.02)


def test_without_variance_it_is_nn_gru() -> None:
    layer = SamplingFreeGRU(3, 6, num_layers=2, bidirectional=True, rho=-60.0)
    plain = nn.GRU(3, 6, num_layers=2, bidirectional=True)
    layer.load_state_dict(plain.state_dict(), strict=False)
    x = torch.randn(7, 4, 3)
    for found, expected in zip(layer(x, mode="deterministic"), plain(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(layer(x)[0], plain(x)[0], rtol=0, atol=1e-5)


def test_the_moments_are_about_those_of_sampled_weights() -> None:
    torch.manual_seed(0)
    layer, x = SamplingFreeGRU(3, 40, rho=-2.5), torch.randn(5, 6, 3)
    plain, ends = nn.GRU(3, 40), []
    with torch.no_grad():
        for _ in range(400):
            for name, value in plain.named_parameters():
                scale = nn.functional.softplus(layer.get_parameter(f"{name}_rho"))
                value.copy_(layer.get_parameter(name) + scale * torch.randn_like(value))
            ends.append(plain(x)[0][-1])
        drawn = torch.stack(ends)
        mean, variance = layer.moments(x.transpose(0, 1))
    assert float((mean[:, -1] - drawn.mean(0)).abs().mean()) < 0.02
    # Steps share their weights, which moment matching neglects: the variance is too small, but not by an order.
    assert 0.3 < float(variance[:, -1].mean() / drawn.var(0).mean()) < 1


def test_predictions_after_every_step_and_of_streams_agree() -> None:
    model = sttau.SequenceClassifier(SamplingFreeGRU(3, 8, rho=-1.0), 2)
    x, ids = torch.randn(4, 6, 3), torch.arange(4)
    whole = sttau.predict(model, x, ids=ids, per_step=True).mean
    torch.testing.assert_close(sttau.predict(model, x[:, :4], ids=ids).mean, whole[:, 3], rtol=0, atol=1e-6)
    stream = sttau.Stream(model, streams=4)
    for step in range(6):
        torch.testing.assert_close(stream.step(x[:, step]).mean, whole[:, step], rtol=0, atol=1e-6)
    assert bool((sttau.predict(model, x).epistemic > 0).all())


@pytest.mark.parametrize(("mean", "variance"), [(0.3, 1e-12), (20.0, 1.0), (-20.0, 1e-6)])
def test_a_small_variance_is_accurate_in_float32(mean: float, variance: float) -> None:
    fine, found = (sigmoid(Moments(*torch.tensor([mean, variance], dtype=d))) for d in (torch.float64, torch.float32))
    torch.testing.assert_close(found.variance.double(), fine.variance, rtol=1e-5, atol=0)
    assert found.variance.item() > 0


@pytest.mark.parametrize("half", [False, True], ids=["autocast", "bfloat16"])
def test_half_precision_keeps_the_variance(half: bool) -> None:
    torch.manual_seed(0)
    layer, x, noise = (
        SamplingFreeGRU(3, 16, rho=-4.0),
        torch.randn(6, 4, 3).bfloat16().float(),
        Noise.of(torch.arange(4)),
    )
    expected, drawn = layer.bfloat16().float().moments(x).variance, layer(x, noise=noise)[0]
    if half:
        x = x.bfloat16()
        layer.bfloat16()
    with torch.autocast("cpu", enabled=not half):
        found, output = layer.moments(x).variance, layer(x, noise=noise)[0]
        divergence = layer.kl_divergence()
    assert output.dtype == x.dtype
    torch.testing.assert_close(found.float(), expected, rtol=0.01, atol=0)
    torch.testing.assert_close(output.float(), drawn, rtol=0, atol=0.01)
    torch.testing.assert_close(divergence, layer.float().kl_divergence())
