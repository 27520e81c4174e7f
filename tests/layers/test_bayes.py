"""Weights drawn once a pass, and a divergence that knows nothing of time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, MixtureSameFamily, Normal, kl_divergence

from sttau.engine import Noise
from sttau.layers import BayesLSTM


def some_layer(**options: Any) -> BayesLSTM:
    layer = BayesLSTM(2, 3, num_layers=2, batch_first=True, dtype=torch.float64, **options)
    with torch.no_grad():  # so that no two weights have the same distribution
        for name, weight in layer.named_parameters():
            if name.endswith("_rho"):
                weight.uniform_(-4, 0)
    return layer


def posterior_of(layer: BayesLSTM) -> Normal:
    """q over all weights."""
    weights = dict(layer.named_parameters())
    names = [name for name in weights if not name.endswith("_rho")]
    mean, rho = (torch.cat([weights[name + end].flatten() for name in names]) for end in ("", "_rho"))
    return Normal(mean, torch.log1p(rho.exp()))


def test_the_divergence_from_a_gaussian_is_that_of_torch_distributions() -> None:
    for scale in (0.3, 1.0, 2.0):
        layer = some_layer(prior_scale=scale)
        prior = Normal(torch.zeros((), dtype=torch.float64), scale)
        torch.testing.assert_close(layer.kl_divergence(), kl_divergence(posterior_of(layer), prior).sum())


def test_the_divergence_is_0_where_posterior_and_prior_are_the_same() -> None:
    layer = some_layer(prior_scale=0.5)
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            weight.fill_(math.log(math.expm1(0.5)) if name.endswith("_rho") else 0.0)
    assert layer.kl_divergence().item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("options", [{}, {"prior_mixture": (0.25, 0.05)}], ids=["gaussian", "mixture"])
def test_the_divergence_does_not_grow_with_time(options: Any) -> None:
    layer, noise = some_layer(**options), Noise.of(torch.arange(2))
    values = []
    for time in (1, 10, 100):
        layer(torch.randn(2, time, 2, dtype=torch.float64), noise=noise)
        values.append(layer.kl_divergence().item())
    assert values[0] == values[1] == values[2] > 0


def test_the_divergence_from_a_mixture_is_taken_at_the_weights_of_the_pass() -> None:
    layer, noise = some_layer(prior_mixture=(0.25, 0.05)), Noise.of(torch.arange(1))
    layer(torch.zeros(1, 3, 2, dtype=torch.float64), noise=noise)
    got = layer.kl_divergence()
    drawn = layer.draw(noise)
    names = [name for name, _ in layer.named_parameters() if not name.endswith("_rho")]
    weights = torch.cat([drawn[name].flatten() for name in names])
    parts = torch.tensor([0.25, 0.75], dtype=torch.float64), torch.tensor([1.0, 0.05], dtype=torch.float64)
    prior = MixtureSameFamily(Categorical(parts[0]), Normal(torch.zeros(2, dtype=torch.float64), parts[1]))
    torch.testing.assert_close(got, (posterior_of(layer).log_prob(weights) - prior.log_prob(weights)).sum())


def test_the_divergence_from_a_mixture_is_right_on_average() -> None:
    layer = some_layer(prior_mixture=(0.25, 0.05))
    x = torch.zeros(1, 1, 2, dtype=torch.float64)
    values = []
    with torch.no_grad():
        for _ in range(400):
            layer(x)
            values.append(layer.kl_divergence())
        got = torch.stack(values)
        posterior, grid = posterior_of(layer), torch.linspace(-12, 12, 4001, dtype=torch.float64)
        parts = torch.tensor([0.25, 0.75], dtype=torch.float64), torch.tensor([1.0, 0.05], dtype=torch.float64)
        prior = MixtureSameFamily(Categorical(parts[0]), Normal(torch.zeros(2, dtype=torch.float64), parts[1]))
        want = 0.0
        for mean, scale in zip(posterior.loc, posterior.scale, strict=True):  # by quadrature, weight by weight
            w = mean + scale * grid
            q = Normal(mean, scale).log_prob(w)
            want += float(torch.trapezoid(q.exp() * (q - prior.log_prob(w)), w))
    assert abs(got.mean().item() - want) < 4.5 * got.std().item() / math.sqrt(len(got))


@pytest.mark.parametrize("options", [{}, {"prior_mixture": (0.25, 0.05)}], ids=["gaussian", "mixture"])
def test_the_divergence_has_a_gradient_for_every_mean_and_rho(options: Any) -> None:
    layer = some_layer(**options)
    layer(torch.zeros(1, 3, 2, dtype=torch.float64))
    layer.kl_divergence().backward()
    assert all(bool((weight.grad != 0).all()) for weight in layer.parameters() if weight.grad is not None)
    assert all(weight.grad is not None for weight in layer.parameters())


def test_gradients_of_means_and_rhos_are_finite_differences() -> None:
    layer = BayesLSTM(2, 2, batch_first=True, dtype=torch.float64)
    x, noise = torch.randn(2, 3, 2, dtype=torch.float64), Noise.of(torch.arange(2))
    names = [name for name, _ in layer.named_parameters()]

    def call(*weights: Tensor) -> Tensor:
        values = dict(zip(names, weights, strict=True))
        output: Tensor = torch.func.functional_call(layer, values, (x,), {"noise": noise})[0]
        return output

    torch.autograd.gradcheck(call, tuple(layer.parameters()))


def _counted(layer: BayesLSTM, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    draws: list[int] = []
    own: Callable[..., Any] = layer.draw

    def draw(*args: Any) -> Any:
        draws.append(1)
        return own(*args)

    monkeypatch.setattr(layer, "draw", draw)
    return draws


def test_weights_are_drawn_once_a_pass_and_once_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = some_layer(), torch.randn(4, 50, 2, dtype=torch.float64)
    draws = _counted(layer, monkeypatch)
    layer(x)
    assert len(draws) == 1
    layer.features(x, noise=Noise.of(torch.arange(4), samples=3))
    assert len(draws) == 4


def test_within_a_pass_all_steps_and_sequences_have_the_same_weights() -> None:
    """A repeated input to a cell without memory gives a repeated answer; weights drawn step by step would not."""
    layer = BayesLSTM(2, 3, batch_first=True, rho=0.0, dtype=torch.float64)
    with torch.no_grad():
        layer.get_parameter("weight_hh_l0").zero_()
        layer.get_parameter("weight_hh_l0_rho").fill_(-torch.inf)
        layer.get_parameter("bias_ih_l0")[3:6] = -1e6  # the forget gate is shut
    x = torch.randn(1, 1, 2, dtype=torch.float64).expand(5, 8, 2)
    one, other = layer(x)[0], layer(x)[0]
    torch.testing.assert_close(one, one[:1, :1].expand_as(one), rtol=0, atol=1e-12)
    assert not torch.allclose(one, other)  # another pass, other weights


def test_a_pass_is_one_of_nn_lstm_with_the_drawn_weights() -> None:
    layer, noise = some_layer(), Noise.of(torch.arange(5))
    x, plain = torch.randn(5, 8, 2, dtype=torch.float64), nn.LSTM(2, 3, 2, batch_first=True, dtype=torch.float64)
    plain.load_state_dict(layer.draw(noise))
    torch.testing.assert_close(layer(x, noise=noise)[0], plain(x)[0], rtol=0, atol=1e-12)


def test_draws_have_the_mean_and_deviation_they_should() -> None:
    layer = some_layer()
    with torch.no_grad():
        noise = Noise.of(torch.arange(1), samples=1000)
        draws = torch.stack([layer.draw(noise, row)["weight_hh_l1"] for row in range(1000)])
    mean = layer.get_parameter("weight_hh_l1").detach()
    scale = torch.log1p(layer.get_parameter("weight_hh_l1_rho").detach().exp())
    assert ((draws.mean(0) - mean) / scale * math.sqrt(1000)).abs().max() < 4.5
    assert ((draws.std(0) / scale - 1) * math.sqrt(2 * 1000)).abs().max() < 4.5


def test_the_weights_are_one_piece_of_memory_with_all_matrices_first() -> None:
    """As cuDNN holds them: else it copies them, and warns."""
    drawn = list(some_layer().draw().values())
    ends = [weight.data_ptr() + weight.nbytes for weight in drawn]
    assert ends[:-1] == [weight.data_ptr() for weight in drawn[1:]]
    assert [weight.dim() for weight in drawn] == [2, 2, 2, 2, 1, 1, 1, 1]


def test_means_start_around_the_given_center_and_rho_at_its_value() -> None:
    layer = BayesLSTM(50, 100, mean=0.3, rho=-2.0)
    weight = layer.get_parameter("weight_ih_l0")
    assert weight.mean().item() == pytest.approx(0.3, abs=4.5 * 0.1 / math.sqrt(3 * weight.numel()))
    assert 0.2 <= weight.min().item() < 0.21
    assert 0.39 < weight.max().item() <= 0.4
    assert bool((layer.get_parameter("bias_hh_l0_rho") == -2.0).all())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": float("nan")}, "rho must be finite, got nan"),
        ({"mean": float("inf")}, "mean must be finite, got inf"),
        ({"prior_scale": 0.0}, "prior_scale must be positive and finite, got 0.0"),
        ({"prior_mixture": (1.0, 0.1)}, r"prior_mixture must be \(π, s₂\) with 0 < π < 1 .*leave it out"),
        ({"prior_mixture": (0.5, -1.0)}, r"prior_mixture must be \(π, s₂\)"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BayesLSTM(2, 3, **options)
