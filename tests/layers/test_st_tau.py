"""Arguments of the ST-τ layers, and which of them can be exact."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from sttau.layers import LayerMode, STTauGRU, STTauLSTM
from tests.layers.small_layers import (
    HIDDEN,
    INPUT,
    KIND,
    MODE,
    OURS,
    STATES,
    apart,
    assert_close,
    gradients,
    some_inputs,
    some_layer,
    some_noise,
)

# -- the interface of nn.LSTM and nn.GRU ---------------------------------------------------------------------


@KIND
def test_arguments_have_the_names_order_and_defaults_of_pytorchs_with_num_states_third(kind: str) -> None:
    theirs = {
        name: parameter.default
        for name, parameter in inspect.signature(nn.RNNBase.__init__).parameters.items()
        if name not in ("self", "mode", "proj_size")
    }
    parameters = inspect.signature(OURS[kind]).parameters
    positional = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    keywords = [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    assert positional.pop(2) == "num_states"
    assert [*positional, *keywords[-2:]] == list(theirs)
    assert {name: parameters[name].default for name in theirs} == theirs


# -- modes ---------------------------------------------------------------------------------------------------


@MODE
def test_peepholes_are_weights_of_their_own(mode: LayerMode) -> None:
    layer, x = some_layer("LSTM", mode=mode, peephole=True, num_layers=2, bidirectional=True), some_inputs()
    plain = some_layer("LSTM", mode=mode, num_layers=2, bidirectional=True)
    unexpected = plain.load_state_dict(layer.state_dict(), strict=False).unexpected_keys
    assert unexpected == [f"weight_peephole_{end}" for end in ("l0", "l0_reverse", "l1", "l1_reverse")]
    results = apart(layer(x, noise=some_noise()))
    assert not torch.equal(results[2], plain(x, noise=some_noise())[1][1])
    slopes = gradients(layer, results)
    assert all(slopes[name].any() for name in unexpected)
    with torch.no_grad():
        for name in unexpected:
            layer.get_parameter(name).zero_()
    assert_close(apart(layer(x, noise=some_noise())), apart(plain(x, noise=some_noise())))


# -- exact inference -----------------------------------------------------------------------------------------


EXACT_REASONS: list[tuple[str, dict[str, Any], str]] = [
    ("LSTM", {}, "STTauLSTM: an LSTM's memory c_t depends on the whole path"),
    ("GRU", {"readout": "cell"}, "STTauGRU: .*reads u_t"),
    ("GRU", {"num_layers": 2}, "STTauGRU: the input of an upper layer is the random path"),
    ("GRU", {"bidirectional": True}, "STTauGRU: .*one direction"),
]


@pytest.mark.parametrize(("kind", "options", "reason"), EXACT_REASONS)
def test_exact_inference_is_refused_with_the_reason_where_it_would_be_false(
    kind: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        some_layer(kind, mode="exact", **options)
    layer, x = some_layer(kind, **options), some_inputs()
    calls: list[Callable[[], Any]] = [
        layer.check_exact,
        lambda: layer(x, mode="exact"),
        lambda: layer.state_distribution(x),
        lambda: layer.first_distribution(x[:, 0]),
        lambda: layer.transition_matrices(x),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=reason):
            call()


def test_a_single_gru_in_one_direction_can_be_exact() -> None:
    some_layer("GRU", learn_temperature=False, initial="first", bias=False).check_exact()


# -- what is refused -----------------------------------------------------------------------------------------


@KIND
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_size": 0}, "input_size must be at least 1, got 0"),
        ({"hidden_size": 0}, "hidden_size must be at least 1, got 0"),
        ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
        ({"num_states": 1}, "num_states must be at least 2 .*, got 1"),
        ({"temperature": 0.0}, "temperature must be positive and finite, got 0.0"),
        ({"temperature": -1.0}, "temperature must be positive and finite, got -1.0"),
        ({"temperature": math.nan}, "temperature must be positive and finite, got nan"),
        ({"temperature": math.inf}, "temperature must be positive and finite, got inf"),
        ({"temperature": 1e-39}, "temperature must be in 1e-20 … 1e\\+20, where float32 does not overflow, got 1e-39"),
        ({"temperature": 1e39}, "temperature must be in 1e-20 … 1e\\+20, where float32 does not overflow, got 1e\\+39"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"dropout": -0.1}, r"dropout must be in \[0, 1\), got -0.1"),
        (
            {"mode": "sampled"},
            "mode must be one of 'soft', 'hard', 'exact', 'deterministic', got 'sampled'",
        ),
        ({"readout": "logits"}, "readout must be one of 'state', 'cell', got 'logits'"),
        ({"initial": "last"}, "initial must be one of 'zeros', 'first', got 'last'"),
    ],
)
def test_arguments_that_cannot_be_are_refused_by_name(kind: str, options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"input_size": INPUT, "hidden_size": HIDDEN, "num_states": STATES} | options
    with pytest.raises(ValueError, match=message):
        OURS[kind](**arguments)


def test_peepholes_of_a_gru_are_refused() -> None:
    with pytest.raises(ValueError, match=r"peephole .* a GRU has none"):
        some_layer("GRU", peephole=True)


# -- a layer as a value --------------------------------------------------------------------------------------


@KIND
def test_config_holds_every_argument_but_device_and_dtype(kind: str) -> None:
    options: dict[str, Any] = {"input_size": 3, "hidden_size": 4, "num_states": 5, "num_layers": 2, "bias": False}
    options |= {"batch_first": True, "dropout": 0.2, "bidirectional": True, "temperature": 0.3}
    options |= {"learn_temperature": False, "mode": "hard", "readout": "cell", "initial": "first"}
    options |= {"peephole": kind == "LSTM"}
    assert OURS[kind](**options).config() == options
    assert {*options, "device", "dtype"} == set(inspect.signature(OURS[kind]).parameters)


def test_the_representation_shows_sizes_and_what_is_not_default() -> None:
    assert repr(STTauLSTM(3, 4, 5)) == "STTauLSTM(3, 4, num_states=5)"
    assert repr(STTauGRU(3, 4, 5, 2, temperature=0.5)) == "STTauGRU(3, 4, num_states=5, num_layers=2, temperature=0.5)"
