"""Small ST-τ layers, their inputs, states and noise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau.engine import Noise
from sttau.layers import FiniteStateRNN, LayerMode, STTauGRU, STTauLSTM

INPUT, HIDDEN, STATES, BATCH, TIME = 3, 4, 5, 4, 6
LENGTHS = torch.tensor([3, 6, 1, 4])
OURS: dict[str, type[FiniteStateRNN]] = {"LSTM": STTauLSTM, "GRU": STTauGRU}
KIND = pytest.mark.parametrize("kind", ["LSTM", "GRU"])
SAMPLED: list[LayerMode] = ["soft", "hard"]
MODE = pytest.mark.parametrize("mode", [*SAMPLED, "deterministic"])
LAYERED = pytest.mark.parametrize("num_layers", [1, 2])
BIDIRECTIONAL = pytest.mark.parametrize("bidirectional", [False, True], ids=["", "bidirectional"])
# Every combination a mode can run in; exact inference is for one direction of one GRU.
WAYS = [
    (kind, mode, num_layers, bidirectional)
    for kind in OURS
    for mode in (*SAMPLED, "deterministic", "exact")
    for num_layers in (1, 2)
    for bidirectional in (False, True)
    if mode != "exact" or (kind == "GRU" and num_layers == 1 and not bidirectional)
]
WAY = pytest.mark.parametrize(("kind", "mode", "num_layers", "bidirectional"), WAYS)


def some_layer(kind: str, **options: Any) -> FiniteStateRNN:
    defaults: dict[str, Any] = {"dtype": torch.float64, "batch_first": True, "temperature": 0.8}
    return OURS[kind](INPUT, HIDDEN, STATES, **(defaults | options))


def some_inputs(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(BATCH, TIME, INPUT, dtype=dtype)


def some_state(layer: FiniteStateRNN | nn.RNNBase, *rows: int) -> Any:
    """h_0, or (h_0, c_0) for an LSTM."""
    directions = 2 if layer.bidirectional else 1
    h, c = torch.randn(2, layer.num_layers * directions, *rows, HIDDEN, dtype=torch.float64)
    return (h, c) if isinstance(layer, (STTauLSTM, nn.LSTM)) else h


def some_noise(batch: int = BATCH, samples: int = 1) -> Noise:
    return Noise.of(torch.arange(20, 20 + batch), samples, seed=6)


def apart(result: Any) -> list[Any]:
    """[output, h_n] or [output, h_n, c_n]."""
    output, state = result
    return [output, *state] if isinstance(state, tuple) else [output, state]


def assert_close(one: list[Tensor], other: list[Tensor]) -> None:
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


def gradients(layer: nn.Module, results: list[Tensor]) -> dict[str, Tensor]:
    """Of a loss that weighs every number of the results differently; only of parameters that were used."""
    loss = torch.stack([(part.cos() * part).sum() for part in results]).sum()
    named = dict(layer.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {name: slope for name, slope in zip(named, found, strict=True) if slope is not None}
