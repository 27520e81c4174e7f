"""The mode of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from sttau.layers import LayerMode
from tests.layers.small_layers import KIND, MODE, SAMPLED, some_inputs, some_layer, some_noise

# -- modes ---------------------------------------------------------------------------------------------------


@KIND
@MODE
def test_a_call_can_override_the_mode(kind: str, mode: LayerMode) -> None:
    layer, x = some_layer(kind, mode="soft"), some_inputs()
    other = some_layer(kind, mode=mode)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x, noise=some_noise(), mode=mode)[0], other(x, noise=some_noise())[0])
    assert torch.equal(layer.features(x, noise=some_noise(), mode=mode), other.features(x, noise=some_noise()))
    assert torch.equal(layer.transitions(x, noise=some_noise(), mode=mode), other.transitions(x, noise=some_noise()))
    assert layer.mode == "soft"


@KIND
def test_modes_differ(kind: str) -> None:
    layer, x = some_layer(kind), some_inputs()
    modes: list[LayerMode] = [*SAMPLED, "deterministic"] + (["exact"] if kind == "GRU" else [])
    outputs = [layer(x, noise=some_noise(), mode=mode)[0] for mode in modes]
    assert all(not torch.allclose(outputs[i], outputs[j]) for i in range(len(modes)) for j in range(i))


# -- what is refused -----------------------------------------------------------------------------------------


@KIND
def test_an_unknown_mode_of_a_call_is_refused(kind: str) -> None:
    layer, x = some_layer(kind), some_inputs()
    calls: list[Callable[..., Any]] = [layer, layer.features, layer.transitions]
    for call in calls:
        with pytest.raises(ValueError, match=r"mode must be one of .*; got 'harder'"):
            call(x, mode="harder")
