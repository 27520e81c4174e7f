from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from torch import nn

from sttau.training.ema import EMA


def _follow(decay: float, values: list[float]) -> EMA:
    weight = nn.Parameter(torch.zeros(1))
    ema = EMA([weight], decay)
    for number, value in enumerate(values, 1):
        with torch.no_grad():
            weight.fill_(value)
        ema.update(number)
    return ema


def test_it_begins_as_the_plain_mean_and_then_decays() -> None:
    values = [1.0, 2.0, 6.0]
    assert _follow(0.99, values).weights[0].item() == pytest.approx(sum([0.0, *values]) / 4)
    average = 0.0
    for number, value in enumerate([1.0] * 30, 1):
        average += max(0.5, 1 / (1 + number)) * (value - average)
    assert _follow(0.5, [1.0] * 30).weights[0].item() == pytest.approx(average)


def test_an_update_with_a_rate_on_the_device_is_the_same() -> None:
    plain, captured = _follow(0.9, [1.0]), _follow(0.9, [])
    with torch.no_grad():
        captured.parameters[0].fill_(1.0)
    captured.update_by(torch.tensor(captured.rate(1)))
    assert torch.allclose(plain.weights[0], captured.weights[0])


def test_it_is_applied_inside_the_context_only() -> None:
    ema = _follow(0.9, [4.0])
    with suppress(KeyError), ema.applied():
        assert ema.parameters[0].item() == 2
        raise KeyError
    assert ema.parameters[0].item() == 4
    ema.copy_to_parameters()
    assert ema.parameters[0].item() == 2
