"""States that pass on what the cell computes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sttau import STTauGRU, STTauLSTM
from sttau.data import load
from sttau.layers import FiniteStateRNN, StateRegularizedLSTM, set_gain
from sttau.methods import DataSpec, build, resolve


def _slopes(layer: FiniteStateRNN, number: int = 0) -> torch.Tensor:
    """Singular values of the derivative of h by u, at u = 0."""
    states = layer.states.reshape(-1, layer.num_states, layer.hidden_size)[number].detach()
    temperature = layer.temperature.reshape(-1)[number].detach()

    def mixed(u: torch.Tensor) -> torch.Tensor:
        return (states @ u / temperature).softmax(0) @ states

    slope = torch.autograd.functional.jacobian(mixed, torch.zeros(layer.hidden_size, dtype=states.dtype))
    values: torch.Tensor = torch.linalg.svdvals(slope)
    return values


@pytest.mark.parametrize("gain", [0.5, 4.0])
@pytest.mark.parametrize("temperature", [1.0, 64.0])
def test_the_slope_is_the_gain_in_all_directions_but_one(gain: float, temperature: float) -> None:
    layer = STTauLSTM(3, 40, 8, temperature=temperature, dtype=torch.float64)
    assert float(_slopes(layer)[0]) == pytest.approx(4 / (8 * temperature))  # as it is made
    set_gain(layer, gain)
    assert _slopes(layer).tolist() == pytest.approx([gain] * 7 + [0.0] * 33)
    assert layer.states.mean(0).abs().max() < 1e-12
    assert layer.temperature.item() == pytest.approx(temperature)


def test_every_layer_and_direction_has_it() -> None:
    layer = STTauGRU(3, 12, 5, num_layers=2, bidirectional=True, temperature=2.0, dtype=torch.float64)
    with torch.no_grad():
        layer.get_parameter("log_temperature_l1").fill_(3.0)
    set_gain(layer, 1.5)
    for number in range(4):
        assert _slopes(layer, number)[:4].tolist() == pytest.approx([1.5] * 4)


def test_a_fixed_temperature_counts_too() -> None:
    layer = StateRegularizedLSTM(3, 12, 5, temperature=3.0, dtype=torch.float64)
    set_gain(layer, 1.5)
    assert _slopes(layer)[:4].tolist() == pytest.approx([1.5] * 4)


def test_with_more_states_than_units_it_holds_on_average() -> None:
    layer = STTauLSTM(3, 6, 20, dtype=torch.float64)
    set_gain(layer, 2.0)
    assert float(_slopes(layer).mean()) == pytest.approx(2.0)


def test_what_cannot_have_it_is_refused() -> None:
    with pytest.raises(TypeError, match="layer must have states, as STTauLSTM has, got LSTM"):
        set_gain(nn.LSTM(2, 3), 1.0)  # type: ignore[arg-type]
    for gain in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="gain must be positive and finite"):
            set_gain(StateRegularizedLSTM(2, 3, 2), gain)


def test_methods_have_it_as_a_setting() -> None:
    digits = load("digits", "train")
    task = DataSpec.of(digits)
    settings = resolve("st-tau", task, {"num_states": 4, "gain": 2.0, "temperature": 9.0}, hidden_size=16)
    layer = build("st-tau", task, settings, digits, seed=0).layer
    assert isinstance(layer, FiniteStateRNN)
    assert _slopes(layer)[:3].tolist() == pytest.approx([2.0] * 3, rel=1e-4)
    with pytest.raises(ValueError, match="layer must have states"):
        build("lstm", task, {"cell": "lstm", "hidden_size": 4, "gain": 1.0}, digits, seed=0)
