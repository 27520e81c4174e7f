"""Several LSTMs at once: what nn.LSTM computes, one after another."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from sttau.engine import masked, stacked


def _networks(count: int, dtype: torch.dtype) -> tuple[list[nn.LSTM], list[Tensor]]:
    torch.manual_seed(0)
    layers = [nn.LSTM(3, 5, batch_first=True, dtype=dtype) for _ in range(count)]
    return layers, [torch.randn(4, 6, 3, dtype=dtype, requires_grad=True) for _ in range(count)]


def _assert_same_gradients(ours: Tensor, theirs: Tensor, wanted: list[Tensor]) -> None:
    direction = torch.randn_like(theirs)
    gradients = (torch.autograd.grad(output, wanted, direction) for output in (ours, theirs))
    for mine, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["plain", "triton"])
def test_it_is_nn_lstm_for_each_network(dtype: torch.dtype) -> None:
    layers, x = _networks(3, dtype)
    weights = [stacked.Weights(*layer.parameters()) for layer in layers]
    output = stacked.run(x, weights)
    expected = torch.stack([layer(part)[0] for layer, part in zip(layers, x, strict=True)])
    torch.testing.assert_close(output, expected)
    _assert_same_gradients(output, expected, [*x, *(weight for layer in layers for weight in layer.parameters())])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["plain", "triton"])
def test_masks_are_those_of_variational_dropout(dtype: torch.dtype) -> None:
    layers, x = _networks(2, dtype)
    masks = [torch.bernoulli(torch.full((4, 5), 0.5, dtype=dtype)) * 2 for _ in layers]
    weights = [stacked.Weights(*layer.parameters()) for layer in layers]
    output = stacked.run(x, weights, masks)
    zeros = torch.zeros(4, 5, dtype=dtype)
    expected = torch.stack(
        [
            masked.reference(part.transpose(0, 1), masked.MaskedWeights(w[0], w[1], w[2] + w[3]), mask, zeros, zeros)[
                0
            ].transpose(0, 1)
            for part, w, mask in zip(x, weights, masks, strict=True)
        ]
    )
    torch.testing.assert_close(output, expected)
    _assert_same_gradients(output, expected, [*x, *(weight for layer in layers for weight in layer.parameters())])


def test_gradients_are_those_of_finite_differences() -> None:
    layers, x = _networks(2, torch.float64)
    flat = [parameter.detach().requires_grad_() for layer in layers for parameter in layer.parameters()]

    def run(*tensors: Tensor) -> Tensor:
        weights = [stacked.Weights(*tensors[2 + 4 * n : 6 + 4 * n]) for n in range(2)]
        return stacked.run(tensors[:2], weights)

    assert torch.autograd.gradcheck(run, (*x, *flat))
