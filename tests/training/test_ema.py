"""The moving average of the weights."""

from __future__ import annotations

import torch
from torch import nn

from sttau.training.ema import EMA


def test_it_begins_as_the_plain_mean_and_then_decays() -> None:
    weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    ema, values = EMA([weight], 0.9), [0.0]
    for number in range(1, 30):
        with torch.no_grad():
            weight.fill_(number)
        ema.update(number)
        values.append(float(number))
        if number < 9:  # 1 / (1 + number) is larger than 1 - decay
            assert torch.allclose(ema.weights[0], torch.tensor(values).double().mean())
    expected = torch.tensor(values[:10]).double().mean()
    for number in range(10, 30):
        expected = expected + 0.1 * (number - expected)
    torch.testing.assert_close(ema.weights[0][0], expected)


def test_a_rate_on_the_device_gives_the_same() -> None:
    weight = nn.Parameter(torch.randn(5))
    one, other = EMA([weight], 0.9), EMA([weight], 0.9)
    with torch.no_grad():
        weight.add_(1)
    one.update(20)
    other.update_by(torch.tensor(one.rate(20)))
    torch.testing.assert_close(one.weights, other.weights)


def test_it_is_applied_inside_a_context_only() -> None:
    weight = nn.Parameter(torch.zeros(2))
    ema = EMA([weight], 0.9)
    with torch.no_grad():
        weight.fill_(3.0)
    with ema.applied():
        assert weight.tolist() == [0.0, 0.0]
    assert weight.tolist() == [3.0, 3.0]
