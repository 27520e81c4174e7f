from __future__ import annotations

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


def test_float32_is_accurate_on_long_sequences() -> None:
    torch.manual_seed(0)
    layer, x = MinGRU(3, 5, num_layers=2), torch.randn(3000, 2, 3)
    fine = MinGRU(3, 5, num_layers=2, dtype=torch.float64)
    fine.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x)[0], fine(x.double())[0].float(), rtol=0, atol=2e-3)


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
