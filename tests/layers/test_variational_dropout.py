"""Masks: constant over time, different between sequences, and where they should be."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from sttau.engine import Noise, using
from sttau.layers import VariationalDropoutLSTM

DEEP: dict[str, Any] = {"num_layers": 2, "bidirectional": True}


def some_layer(**options: Any) -> VariationalDropoutLSTM:
    defaults: dict[str, Any] = {"dtype": torch.float64, "batch_first": True, "dropout": 0.4}
    return VariationalDropoutLSTM(3, 4, **(defaults | options))


def by_hand(layer: VariationalDropoutLSTM, x: Tensor, noise: Noise, lengths: list[int]) -> Tensor:
    """Each sequence alone, step by step, with PyTorch's own cell on masked input and state."""
    masks, d = layer.masks(noise), layer.hidden_size
    output = torch.zeros(*x.shape[:2], d * layer.num_directions, dtype=x.dtype)
    for row, length in enumerate(lengths):
        below = x[row, :length]
        for level in range(layer.num_layers):
            halves = []
            for direction in range(layer.num_directions):
                index = level * layer.num_directions + direction
                suffix = f"l{level}" + "_reverse" * direction
                names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                weights = [layer.get_parameter(f"{name}_{suffix}") for name in names]
                h = c = torch.zeros(1, d, dtype=x.dtype)
                steps = []
                for step in below.flip(0) if direction else below:
                    into = (step * masks[index].input[row])[None]
                    h, c = torch.lstm_cell(into, (h * masks[index].recurrent[row], c), *weights)
                    steps.append(h[0])
                halves.append(torch.stack(steps[::-1] if direction else steps))
            below = torch.cat(halves, dim=-1)
        output[row, :length] = below
    return output


@pytest.mark.parametrize("options", [{}, DEEP, {"input_dropout": 0.0}, {"input_dropout": 0.7}], ids=str)
def test_it_is_an_lstm_with_the_same_masks_at_every_step(options: Any) -> None:
    layer, x, noise = some_layer(**options), torch.randn(4, 6, 3, dtype=torch.float64), Noise.of(torch.arange(4))
    lengths = [6, 2, 1, 5]
    got = layer(x, lengths=torch.tensor(lengths), noise=noise)[0]
    torch.testing.assert_close(got, by_hand(layer, x, noise, lengths), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_gradients_are_finite_differences() -> None:
    layer = VariationalDropoutLSTM(2, 2, batch_first=True, dropout=0.5, dtype=torch.float64, **DEEP)
    x = torch.randn(2, 3, 2, dtype=torch.float64).requires_grad_()
    noise, names = Noise.of(torch.arange(2)), [name for name, _ in layer.named_parameters()]

    def call(x: Tensor, *weights: Tensor) -> Any:
        values, options = dict(zip(names, weights, strict=True)), {"noise": noise, "lengths": torch.tensor([3, 2])}
        output, ends = torch.func.functional_call(layer, values, (x,), options)
        return output, *ends

    assert torch.autograd.gradcheck(call, (x, *layer.parameters()))


def test_masks_differ_between_sequences_samples_layers_directions_and_places() -> None:
    layer = VariationalDropoutLSTM(64, 64, dropout=0.5, **DEEP)
    seen = set()
    for masks in layer.masks(Noise.of(torch.arange(3), samples=2)):
        for mask in masks:
            seen |= {tuple(row.tolist()) for row in mask[:, :64]}
    assert len(seen) == 4 * 2 * 6
    same = layer.masks(Noise.of(torch.tensor([2]), first_sample=1))[3].recurrent
    assert torch.equal(same[0], layer.masks(Noise.of(torch.arange(3), samples=2))[3].recurrent[5])


def test_a_sequence_that_is_read_in_pieces_keeps_its_masks() -> None:
    layer, x, noise = some_layer(num_layers=2), torch.randn(2, 6, 3, dtype=torch.float64), Noise.of(torch.arange(2))
    whole, _ = layer(x, noise=noise)
    first, state = layer(x[:, :2], noise=noise)
    rest, _ = layer(x[:, 2:], state, noise=replace(noise, first_step=2))
    torch.testing.assert_close(torch.cat([first, rest], dim=1), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_a_mask_drops_its_share_and_keeps_the_mean(rate: float) -> None:
    layer = VariationalDropoutLSTM(100, 200, dropout=rate)
    for mask in layer.masks(Noise.of(torch.arange(500)))[0]:
        assert mask.unique().tolist() == pytest.approx([0.0, 1 / (1 - rate)])
        dropped = (mask == 0).double().mean().item()
        assert abs(dropped - rate) < 4.5 * math.sqrt(rate * (1 - rate) / mask.numel())


def test_the_rate_can_be_changed_at_any_time() -> None:
    layer, x, noise = some_layer(), torch.randn(4, 6, 3, dtype=torch.float64), Noise.of(torch.arange(4))
    seen, dropped = [], []
    for rate in (0.0, 0.1, 0.5, 0.9):
        layer.dropout = rate
        seen.append(layer(x, noise=noise)[0])
        dropped.append(layer.masks(noise)[0].recurrent == 0)
        assert layer.config()["dropout"] == rate
    assert torch.equal(seen[0], layer(x, mode="deterministic")[0])
    assert all(not torch.allclose(a, b) for a, b in pairwise(seen))
    assert all(bool((low <= high).all()) for low, high in pairwise(dropped))  # nested
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), got 1"):
        layer.dropout = 1
    with pytest.raises(ValueError, match=r"input_dropout must be in \[0, 1\), got -0.1"):
        layer.input_dropout = -0.1


def test_inputs_may_have_a_rate_of_their_own() -> None:
    layer = VariationalDropoutLSTM(1, 50, dropout=0.5, input_dropout=0.0)
    masks = layer.masks(Noise.of(torch.arange(100)))[0]
    assert bool((masks.input == 1).all())
    assert bool((masks.recurrent == 0).any())
    layer.dropout, layer.input_dropout = 0.0, 0.5
    assert layer.mode == "sampled"
    masks = layer.masks(Noise.of(torch.arange(100)))[0]
    assert bool((masks.input == 0).any())
    assert bool((masks.recurrent == 1).all())


def test_any_engine_gives_the_same() -> None:
    layer, x = some_layer(**DEEP), torch.randn(4, 6, 3, dtype=torch.float64)
    noise, lengths = Noise.of(torch.arange(4), samples=2), torch.tensor([6, 2, 1, 5])
    with using("reference"):
        want = layer(x, lengths=lengths, noise=noise)[0]
    torch.testing.assert_close(layer(x, lengths=lengths, noise=noise)[0], want, rtol=0, atol=1e-12)
