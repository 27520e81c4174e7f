"""Small models, their inputs, the sum over all paths, and what a saved file holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from sttau import STTauGRU
from sttau.formats import _as_text, _checksum
from sttau.layers import LAYERS, FiniteStateRNN
from sttau.models import SequenceModel

DOUBLE = torch.float64
EXACTLY = 1e-12  # for sums in float64 that differ only in their order
M = TypeVar("M", bound=SequenceModel)
every_layer = pytest.mark.parametrize("name", LAYERS)
both_inputs = pytest.mark.parametrize("tokens", [False, True], ids=["features", "tokens"])


def close(got: Tensor, want: Tensor, tolerance: float = EXACTLY) -> None:
    torch.testing.assert_close(got, want, rtol=0, atol=tolerance)


def layer_of(name: str, **options: Any) -> Any:
    """A small layer of the registry."""
    kind = cast(Any, LAYERS[name])
    return kind(2, 4, num_states=3, **options) if issubclass(kind, FiniteStateRNN) else kind(2, 4, **options)


def bold(model: M) -> M:
    """Give a model float64 weights so wide that its states, classes and steps differ."""
    model = model.double()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "temperature" not in name:
                nn.init.normal_(weight)
    return model


def batch_for(tokens: bool, batch: int = 3, time: int = 4) -> Tensor:
    return torch.randint(5, (batch, time)) if tokens else torch.randn(batch, time, 2, dtype=DOUBLE)


def table(tokens: bool) -> nn.Embedding | None:
    return nn.Embedding(5, 2) if tokens else None


def path_sum(model: SequenceModel, x: Tensor, answer: Callable[[Tensor], Tensor]) -> Tensor:
    """E[answer(h_T)] for one sequence (time, features): walk every path; PyTorch's own cell computes u_t."""
    layer = cast(STTauGRU, model.layer)
    cell = nn.GRUCell(layer.input_size, layer.hidden_size, dtype=DOUBLE)
    cell.load_state_dict({name: getattr(layer, f"{name}_l0") for name in cell.state_dict()})
    states = layer.states

    def walk(h: Tensor, step: int) -> Tensor:
        if step == len(x):
            return answer(h)
        probabilities = (states @ cell(x[step], h)).softmax(dim=-1)
        return torch.stack([probabilities[j] * walk(states[j], step + 1) for j in range(len(states))]).sum(0)

    with torch.no_grad():
        return walk(torch.zeros(layer.hidden_size, dtype=DOUBLE), 0)


def saved_config(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        config = json.loads(file.metadata()["sttau"])
    return {name: value for name, value in config.items() if name != "sha256"}


def saved_tensors(path: Path) -> dict[str, Tensor]:
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)


def rewrite(path: Path, config: dict[str, Any], tensors: dict[str, Tensor], spaces: int = 0) -> Path:
    """Write a file with a right checksum, whatever is in it."""
    text = json.dumps(config | {"sha256": _checksum(_as_text(config), tensors)})
    save_file(tensors, path, metadata={"sttau": text + " " * spaces})
    return path
