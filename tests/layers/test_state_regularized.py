"""State-regularized layers are ST-τ layers without the noise."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor

from sttau.layers import (
    LAYERS,
    FiniteStateRNN,
    StateRegularizedGRU,
    StateRegularizedLSTM,
    STTauGRU,
    STTauLSTM,
)

PAIRS: list[tuple[type[FiniteStateRNN], type[FiniteStateRNN]]] = [
    (StateRegularizedLSTM, STTauLSTM),
    (StateRegularizedGRU, STTauGRU),
]
PAIR = pytest.mark.parametrize(("regularized", "st_tau"), PAIRS, ids=["LSTM", "GRU"])
Layer = type[FiniteStateRNN]
LENGTHS = torch.tensor([6, 1, 4])


def some_layer(layer: Layer, **options: Any) -> FiniteStateRNN:
    return layer(3, 4, 5, dtype=torch.float64, batch_first=True, **options)


def some_inputs() -> Tensor:
    return torch.randn(3, 6, 3, dtype=torch.float64)


def apart(result: Any) -> list[Tensor]:
    output, state = result
    return [output, *state] if isinstance(state, tuple) else [output, state]


@PAIR
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["", "bidirectional"])
@pytest.mark.parametrize("readout", ["state", "cell"])
@pytest.mark.parametrize("initial", ["zeros", "first"])
def test_it_equals_the_deterministic_mode_of_st_tau_on_the_same_weights(
    regularized: Layer, st_tau: Layer, num_layers: int, bidirectional: bool, readout: str, initial: str
) -> None:
    options: dict[str, Any] = {"num_layers": num_layers, "bidirectional": bidirectional}
    options |= {"readout": readout, "initial": initial, "temperature": 0.6}
    ours = some_layer(regularized, **options)
    other = some_layer(st_tau, mode="deterministic", learn_temperature=False, **options)
    other.load_state_dict(ours.state_dict())
    sampled = some_layer(st_tau, mode="soft", **options)
    sampled.load_state_dict(ours.state_dict())  # fixed and learnt temperatures are saved under one name
    x = some_inputs()
    results = apart(ours(x, lengths=LENGTHS))
    for candidate in (other(x, lengths=LENGTHS), sampled(x, lengths=LENGTHS, mode="deterministic")):
        assert all(torch.equal(a, b) for a, b in zip(results, apart(candidate), strict=True))
    assert not torch.equal(results[0], sampled(x, lengths=LENGTHS)[0])


@PAIR
def test_its_temperature_is_fixed_by_default_and_can_be_learnt(regularized: Layer, st_tau: Layer) -> None:
    fixed, learnt = some_layer(regularized, temperature=0.5), some_layer(regularized, learn_temperature=True)
    assert fixed.temperature.item() == 0.5
    assert not fixed.temperature.requires_grad
    assert "log_temperature_l0" not in dict(fixed.named_parameters())
    slope = torch.autograd.grad(learnt(some_inputs())[0].square().sum(), learnt.get_parameter("log_temperature_l0"))
    assert slope[0].any()


@PAIR
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_it_has_no_randomness(regularized: Layer, st_tau: Layer, training: bool) -> None:
    layer, x = some_layer(regularized, num_layers=2, bidirectional=True).train(training), some_inputs()
    before = torch.get_rng_state()
    assert torch.equal(layer(x)[0], layer(x)[0])
    assert torch.equal(torch.get_rng_state(), before)


@PAIR
def test_its_arguments_are_those_of_st_tau_without_mode(regularized: Layer, st_tau: Layer) -> None:
    ours, others = (inspect.signature(layer).parameters for layer in (regularized, st_tau))
    assert list(ours) == [name for name in others if name != "mode"]
    differing = {name for name in ours if ours[name].default != others[name].default}
    assert differing == {"learn_temperature"}
    assert [ours[name].kind for name in ours] == [others[name].kind for name in ours]
    with pytest.raises(TypeError, match="mode"):
        some_layer(regularized, mode="soft")


@PAIR
def test_every_option_reaches_the_layer_and_comes_back_in_its_config(regularized: Layer, st_tau: Layer) -> None:
    options: dict[str, Any] = {"input_size": 3, "hidden_size": 4, "num_states": 5, "num_layers": 2, "bias": False}
    options |= {"batch_first": True, "dropout": 0.2, "bidirectional": True, "temperature": 0.3}
    options |= {"learn_temperature": True, "readout": "cell", "initial": "first"}
    options |= {"peephole": regularized is StateRegularizedLSTM}
    layer, x = regularized(**options, dtype=torch.float64).eval(), some_inputs()
    assert layer.config() == options
    other = regularized(**layer.config(), dtype=torch.float64).eval()
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x)[0], layer(x)[0])


@PAIR
def test_it_is_registered_and_is_an_st_tau_layer(regularized: Layer, st_tau: Layer) -> None:
    assert LAYERS[regularized.__name__] is regularized
    assert issubclass(regularized, st_tau)
    assert some_layer(regularized).mode == "deterministic"
