"""Several LSTMs at once equal ``nn.LSTM`` one after another."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from sttau.engine import stacked
from sttau.engine.masked import MaskedWeights, reference

SHAPES = {"step by step": (4, 5), "all steps": (37, 17)}  # rows and units


def _networks(
    count: int, dtype: torch.dtype, rows: int, size: int, features: int
) -> tuple[list[nn.LSTM], list[Tensor]]:
    torch.manual_seed(0)
    layers = [nn.LSTM(features, size, batch_first=True, dtype=dtype) for _ in range(count)]
    return layers, [torch.randn(rows, 6, features, dtype=dtype, requires_grad=True) for _ in range(count)]


def _assert_same(ours: Tensor, theirs: Tensor, wanted: list[Tensor]) -> None:
    """Results and gradients are equal, or almost so where weights are rounded to the ten digits of TF32."""
    rounded = ours.dtype == torch.float32 and ours.shape[1] > 32
    direction = torch.randn_like(theirs)
    values = ([output, *torch.autograd.grad(output, wanted, direction)] for output in (ours, theirs))
    for mine, expected in zip(*values, strict=True):
        assert mine.is_contiguous() == expected.is_contiguous()
        if rounded:
            assert (mine - expected).norm() < 1e-3 * expected.norm()
        else:
            torch.testing.assert_close(mine, expected, atol=1e-5, rtol=1e-4)


def _parameters(layers: list[nn.LSTM]) -> list[Tensor]:
    return [weight for layer in layers for weight in layer.parameters()]


def _parts(layers: list[nn.LSTM], x: list[Tensor]) -> list[stacked.Part]:
    weights = (stacked.Weights(*layer.parameters()) for layer in layers)
    return [stacked.Part(part, own) for part, own in zip(x, weights, strict=True)]


@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["plain", "triton"])
def test_every_network_equals_nn_lstm(dtype: torch.dtype, shape: tuple[int, int], features: int) -> None:
    layers, x = _networks(3, dtype, *shape, features)
    lengths = [torch.randint(1, 7, shape[:1]), None, torch.randint(1, 7, shape[:1])]
    output = stacked.run(_parts(layers, x), lengths)
    rows = torch.arange(shape[0])
    whole = [layer(part)[0] for layer, part in zip(layers, x, strict=True)]
    ends = [torch.full_like(rows, 6) if length is None else length for length in lengths]
    expected = torch.stack([part[rows, end - 1] for part, end in zip(whole, ends, strict=True)])
    _assert_same(output, expected, [*x, *_parameters(layers)])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["plain", "triton"])
def test_masks_are_those_of_variational_dropout(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    layers, x = _networks(2, dtype, *shape, 3)
    masks = [torch.bernoulli(torch.full(shape, 0.5, dtype=dtype)) * 2 for _ in layers]
    parts = _parts(layers, x)
    output = stacked.run([part._replace(mask=mask) for part, mask in zip(parts, masks, strict=True)])
    zeros = torch.zeros(shape, dtype=dtype)
    expected = torch.stack(
        [
            reference.run(part.transpose(0, 1), MaskedWeights(w[0], w[1], w[2] + w[3]), mask, zeros, zeros)[0][-1]
            for (part, w, _), mask in zip(parts, masks, strict=True)
        ]
    )
    _assert_same(output, expected, [*x, *_parameters(layers)])


def test_gradients_are_those_of_finite_differences() -> None:
    layers, x = _networks(2, torch.float64, 4, 5, 3)
    flat = [parameter.detach().requires_grad_() for parameter in _parameters(layers)]
    lengths = [torch.tensor([1, 6, 3, 4]), None]

    def run(*tensors: Tensor) -> Tensor:
        parts = [stacked.Part(tensors[n], stacked.Weights(*tensors[2 + 4 * n : 6 + 4 * n])) for n in range(2)]
        return stacked.run(parts, lengths)

    assert torch.autograd.gradcheck(run, (*x, *flat))


def test_weights_that_do_not_fit_are_read_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    triton_kernels = pytest.importorskip("sttau.engine.stacked.triton")
    layers, x = _networks(2, torch.float32, 37, 17, 3)
    expected = torch.stack([layer(part)[0][:, -1] for layer, part in zip(layers, x, strict=True)])
    rounded = stacked.run(_parts(layers, x))
    monkeypatch.setattr(triton_kernels, "_shared", lambda device: 20_000)
    exact = stacked.run(_parts(layers, x))
    torch.testing.assert_close(exact, expected)
    assert (rounded - expected).abs().max() > (exact - expected).abs().max()
