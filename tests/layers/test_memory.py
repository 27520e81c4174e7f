"""Biases and states that let a layer remember."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sttau.layers import BayesLSTM, MinGRU, STTauGRU, STTauLSTM, VariationalDropoutLSTM, set_memory
from sttau.methods import DataSpec, build, resolve


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(2, 300, 2, bidirectional=True),
        STTauLSTM(2, 300, 3),
        BayesLSTM(2, 300),
        VariationalDropoutLSTM(2, 300),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_cells_hold_from_one_step_to_all(layer: nn.Module) -> None:
    torch.manual_seed(0)
    rho = {name: value.clone() for name, value in layer.named_parameters() if "rho" in name}
    set_memory(layer, 100)
    for name, bias in layer.named_parameters():
        if "rho" in name:
            assert torch.equal(bias, rho[name])
        elif name.startswith("bias_ih"):
            i, f, n, o = bias.detach().chunk(4)
            assert torch.equal(i, -f)
            assert 0 <= float(f.min()) < 2 < 4 < float(f.max()) <= 4.6
            assert not n.any()
            assert not o.any()
        elif name.startswith("bias_hh"):
            assert not bias.any()


@pytest.mark.parametrize("layer", [nn.GRU(2, 300), STTauGRU(2, 300, 3)], ids=lambda layer: type(layer).__name__)
def test_units_of_a_gru_hold_from_one_step_to_all(layer: nn.Module) -> None:
    torch.manual_seed(0)
    set_memory(layer, 100)
    r, z, n = layer.bias_ih_l0.detach().chunk(3)  # type: ignore[operator]
    assert 0 <= float(z.min()) < 2 < 4 < float(z.max()) <= 4.6
    assert not torch.cat([r, n, layer.bias_hh_l0.detach()]).any()  # type: ignore[operator]


def test_drawn_states_of_a_gru_stay_for_about_as_long() -> None:
    torch.manual_seed(0)
    x = torch.randn(200, 4)
    stay = {}
    for steps in (None, 20, 100):
        layer = STTauGRU(4, 64, 8, mode="exact")
        if steps is not None:
            set_memory(layer, steps)
        matrices = layer.transition_matrices(x)
        stay[steps] = 1 / (1 - matrices.diagonal(dim1=-2, dim2=-1).mean().item())
    assert stay[None] < 3
    assert 4 < stay[20] < 20 < stay[100] < 100


def test_what_cannot_remember_is_refused() -> None:
    with pytest.raises(TypeError, match="gates of an LSTM or a GRU, got MinGRU"):
        set_memory(MinGRU(2, 3), 10)
    with pytest.raises(ValueError, match="bias=True"):
        set_memory(nn.LSTM(2, 3, bias=False), 10)
    with pytest.raises(ValueError, match="steps must be more than 2, got 1"):
        set_memory(nn.LSTM(2, 3), 1)


def test_methods_have_it_as_a_setting() -> None:
    from sttau.data import load

    digits = load("digits", "train")
    task = DataSpec.of(digits)
    model = build("lstm", task, resolve("lstm", task, {"memory": 30}, hidden_size=16), digits, seed=0)
    assert not model.members[0].layer.get_parameter("rnn.bias_hh_l0").any()
