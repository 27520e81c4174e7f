from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from sttau.layers import MinGRU, MinLSTM


def candidate(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x >= 0, x + 0.5, x.sigmoid())


@pytest.mark.parametrize("kind", [MinGRU, MinLSTM])
def test_all_steps_at_once_are_the_recurrence_step_by_step(kind: type) -> None:
    torch.manual_seed(0)
    layer, x = kind(3, 5, batch_first=True, dtype=torch.float64), 3 * torch.randn(2, 200, 3, dtype=torch.float64)
    h, expected = torch.rand(2, 5, dtype=torch.float64), []
    start = h[None]
    for step in x.unbind(1):
        parts = F.linear(step, layer.weight_ih_l0, layer.bias_ih_l0).chunk(layer._gates, dim=-1)
        if kind is MinGRU:
            z = parts[0].sigmoid()
            h = (1 - z) * h + z * candidate(parts[1])
        else:
            f, i = parts[0].sigmoid(), parts[1].sigmoid()
            h = f / (f + i) * h + i / (f + i) * candidate(parts[2])
        expected.append(h)
    output, end = layer(x, start)
    torch.testing.assert_close(output, torch.stack(expected, 1))
    torch.testing.assert_close(end[0], h)


def step_by_step(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """h of all steps of (time, batch, features), in float64 from the layer's own gates."""
    gates = F.linear(x, layer.weight_ih_l0, layer.bias_ih_l0)
    h, every = torch.zeros(x.shape[1], layer.hidden_size, dtype=torch.float64), []
    for keep, add in zip(*layer._coefficients(gates.double()), strict=True):
        h = keep.exp() * h + add.exp()
        every.append(h)
    return torch.stack(every)


@pytest.mark.parametrize("kind", [MinGRU, MinLSTM])
@pytest.mark.parametrize("large", [None, 1e7, -1e7, 1e30])
def test_float32_is_accurate_on_long_sequences_and_after_large_inputs(kind: type, large: float | None) -> None:
    torch.manual_seed(0)
    layer, x = kind(3, 5), torch.randn(4000, 2, 3)
    if large is not None:
        x[10] *= large
        x[500, :, 0] = large
    with torch.no_grad():  # the logarithms of large values, of up to 70, are float32
        torch.testing.assert_close(layer(x)[0].double(), step_by_step(layer, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [MinGRU, MinLSTM])
def test_padding_has_no_effect_in_either_direction(kind: type) -> None:
    layer = kind(3, 5, num_layers=2, bidirectional=True, batch_first=True)
    x, lengths = torch.randn(3, 9, 3), torch.tensor([9, 4, 1])
    output, end = layer(x, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        alone, own = layer(x[row : row + 1, :length])
        torch.testing.assert_close(output[row, :length], alone[0])
        torch.testing.assert_close(end[:, row], own[:, 0])
        assert not bool(output[row, length:].any())
