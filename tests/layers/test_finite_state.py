"""States, temperature, initial values and exact inference of finite-state layers."""

from __future__ import annotations

import copy
import math
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from sttau.engine import Noise, using
from sttau.layers import FiniteStateRNN, LayerMode, STTauGRU
from tests.layers.small_layers import (
    BATCH,
    BIDIRECTIONAL,
    HIDDEN,
    INPUT,
    KIND,
    LAYERED,
    LENGTHS,
    MODE,
    OURS,
    SAMPLED,
    STATES,
    TIME,
    apart,
    assert_close,
    gradients,
    some_inputs,
    some_layer,
    some_noise,
    some_state,
)

# -- features, transitions, samples --------------------------------------------------------------------------


@KIND
@MODE
@LAYERED
def test_transitions_are_the_weights_of_the_states_in_the_output(kind: str, mode: LayerMode, num_layers: int) -> None:
    layer, x = some_layer(kind, mode=mode, num_layers=num_layers), some_inputs()
    alpha = layer.transitions(x, LENGTHS, noise=some_noise(samples=2))
    assert alpha.shape == (2 * BATCH, TIME, STATES)
    valid = (torch.arange(TIME) < LENGTHS[:, None]).repeat(2, 1)
    assert_close([alpha.sum(-1)], [valid.double()])
    states = layer.states if num_layers == 1 else layer.states[-1]
    assert_close([alpha @ states], [layer.features(x, LENGTHS, noise=some_noise(samples=2))])


@pytest.mark.parametrize("mode", SAMPLED)
def test_layers_and_directions_draw_apart(mode: LayerMode, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    draw = Noise.gumbel

    def watched(self: Noise, *arguments: Any) -> Tensor:
        seen.append(draw(self, *arguments))
        return seen[-1]

    monkeypatch.setattr(Noise, "gumbel", watched)
    with using("reference"):  # which asks for its draws where they can be seen
        some_layer("GRU", mode=mode, num_layers=2, bidirectional=True)(some_inputs(), noise=some_noise())
    assert len(seen) == 4
    assert all((seen[i] != seen[j]).double().mean() > 0.99 for i in range(4) for j in range(i))


# -- modes ---------------------------------------------------------------------------------------------------


@KIND
@pytest.mark.parametrize(
    ("limit", "of"),
    [("hard", "soft"), ("argmax", "deterministic")],
    ids=["soft", "deterministic"],
)
def test_a_tiny_temperature_gives_hard_states(kind: str, limit: str, of: LayerMode) -> None:
    layer, x = some_layer(kind, temperature=1e-9, num_layers=2, bidirectional=True), some_inputs()
    output = layer(x, noise=some_noise(), mode=of)[0]
    alpha = layer.transitions(x, noise=some_noise(), mode=of)
    assert_close([alpha.max(-1).values], [torch.ones(BATCH, TIME, dtype=torch.float64)])
    assert_close([output[..., :HIDDEN]], [layer.states[2][alpha.argmax(-1)]])
    if limit == "hard":
        assert_close([output], [layer(x, noise=some_noise(), mode="hard")[0]])


@KIND
@pytest.mark.parametrize("mode", ["soft", "deterministic"])
def test_a_huge_temperature_gives_the_mean_of_the_states(kind: str, mode: LayerMode) -> None:
    layer = some_layer(kind, temperature=1e12, mode=mode)
    output = layer(some_inputs(), noise=some_noise())[0]
    torch.testing.assert_close(output, layer.states.mean(0).expand(BATCH, TIME, -1), rtol=0, atol=1e-10)


@KIND
def test_straight_through_returns_rows_of_the_states(kind: str) -> None:
    layer = some_layer(kind, mode="hard")
    output = layer(some_inputs())[0]
    equal = (output[:, :, None] == layer.states).all(-1)
    assert (equal.sum(-1) == 1).all()


@KIND
@MODE
def test_the_first_state_can_be_the_initial_one(kind: str, mode: LayerMode) -> None:
    layer, x = some_layer(kind, mode=mode, initial="first", num_layers=2, bidirectional=True), some_inputs()
    h = torch.stack([states[0].expand(BATCH, -1) for states in layer.states])
    state = (h, torch.zeros_like(h)) if kind == "LSTM" else h
    assert_close(apart(layer(x, noise=some_noise())), apart(layer(x, state, noise=some_noise())))
    layer.initial = "zeros"
    zeros = (0 * h, 0 * h) if kind == "LSTM" else 0 * h
    assert_close(apart(layer(x, noise=some_noise())), apart(layer(x, zeros, noise=some_noise())))


# -- temperature ---------------------------------------------------------------------------------------------


@KIND
@LAYERED
@BIDIRECTIONAL
def test_the_temperature_is_one_positive_number_a_layer_and_direction(
    kind: str, num_layers: int, bidirectional: bool
) -> None:
    layer = some_layer(kind, num_layers=num_layers, bidirectional=bidirectional, temperature=0.3)
    count = num_layers * layer.num_directions
    assert_close([layer.temperature], [torch.full((count,) if count > 1 else (), 0.3, dtype=torch.float64)])
    assert layer.states.shape == ((count, STATES, HIDDEN) if count > 1 else (STATES, HIDDEN))
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.startswith("log_temperature"):
                parameter.fill_(-30.0)
    assert (layer.temperature > 0).all()


@KIND
@MODE
def test_every_parameter_gets_a_gradient(kind: str, mode: LayerMode) -> None:
    layer = some_layer(kind, mode=mode, num_layers=2, bidirectional=True)
    slopes = gradients(layer, apart(layer(some_inputs(), lengths=LENGTHS, noise=some_noise())))
    assert slopes.keys() == dict(layer.named_parameters()).keys()
    assert sum(name.startswith("log_temperature") for name in slopes) == 4
    assert all(slope.isfinite().all() and slope.any() for slope in slopes.values())


@KIND
def test_a_fixed_temperature_is_a_buffer_and_is_saved(kind: str) -> None:
    layer = some_layer(kind, learn_temperature=False, temperature=0.3)
    assert not any("temperature" in name for name, _ in layer.named_parameters())
    other = some_layer(kind, learn_temperature=False, temperature=2.0)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.temperature, layer.temperature)
    assert layer.temperature.item() == pytest.approx(0.3, rel=1e-14)
    assert not layer.temperature.requires_grad


# -- initial values ------------------------------------------------------------------------------------------


def fresh(kind: str, hidden: int, states: int, dtype: torch.dtype = torch.float64, **options: Any) -> FiniteStateRNN:
    """A layer whose weights were spoilt and then drawn anew."""
    layer = OURS[kind](INPUT, hidden, states, dtype=dtype, **options)
    with torch.no_grad():
        for parameter in (*layer.parameters(), *layer.buffers()):
            parameter.fill_(9.0)
    layer.reset_parameters()
    return layer


PRECISION = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5), (torch.bfloat16, 1e-2)], ids=str
)
STATE_LENGTH = 2.0  # as the docstring of reset_parameters has it


@KIND
@pytest.mark.parametrize(("hidden", "states"), [(8, 2), (8, 8), (30, 5)])
@PRECISION
def test_states_start_orthogonal_and_of_length_two(
    kind: str, hidden: int, states: int, dtype: torch.dtype, tolerance: float
) -> None:
    S = fresh(kind, hidden, states, dtype).states.double() / STATE_LENGTH
    torch.testing.assert_close(S @ S.T, torch.eye(states).double(), rtol=0, atol=tolerance)


@KIND
@PRECISION
def test_states_start_of_length_two_also_where_there_are_more_than_d(
    kind: str, dtype: torch.dtype, tolerance: float
) -> None:
    S = fresh(kind, 4, 9, dtype).states.double() / STATE_LENGTH
    torch.testing.assert_close(S.norm(dim=-1), torch.ones(9).double(), rtol=0, atol=tolerance)
    assert torch.linalg.matrix_rank(S) == 4


@KIND
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_weights_start_as_documented(kind: str, dtype: torch.dtype) -> None:
    d = 16
    layer = fresh(kind, d, STATES, dtype, num_layers=2, bidirectional=True, temperature=0.5, peephole=kind == "LSTM")
    for name, parameter in layer.named_parameters():
        if name.startswith("weight"):
            assert parameter.abs().max() <= 1 / math.sqrt(d)
            spread = parameter.double().square().mean().sqrt().item()
            assert spread == pytest.approx(1 / math.sqrt(3 * d), rel=0.25)
        elif name.startswith("bias"):
            expected = torch.zeros_like(parameter)
            if kind == "LSTM" and name.startswith("bias_ih"):
                expected[d : 2 * d] = 1
            assert torch.equal(parameter, expected)
    rounding = 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(layer.temperature.double(), torch.full((4,), 0.5).double(), rtol=rounding, atol=0)


@KIND
@pytest.mark.parametrize("learn_temperature", [True, False], ids=["learnt", "fixed"])
def test_reset_brings_the_temperature_back_and_draws_new_weights(kind: str, learn_temperature: bool) -> None:
    layer = fresh(kind, HIDDEN, STATES, temperature=0.25, learn_temperature=learn_temperature)
    before = copy.deepcopy(layer.state_dict())
    layer.reset_parameters()
    assert layer.temperature.item() == pytest.approx(0.25, rel=1e-14)
    assert all((before[name] != layer.state_dict()[name]).any() for name in ("weight_ih_l0", "states_l0"))
    torch.manual_seed(4)
    layer.reset_parameters()
    first = copy.deepcopy(layer.state_dict())
    torch.manual_seed(4)
    layer.reset_parameters()
    assert all(torch.equal(first[name], weight) for name, weight in layer.state_dict().items())


# -- exact inference -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["zeros", "first", "given"])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
def test_the_exact_mode_returns_the_mean_state_and_the_last_valid_one(start: str, lengths: Tensor | None) -> None:
    layer = some_layer("GRU", mode="exact", initial="first" if start == "first" else "zeros")
    x = some_inputs()
    state = some_state(layer, BATCH) if start == "given" else None
    first = layer.states[:1] if start == "first" else torch.zeros(1, HIDDEN, dtype=torch.float64)
    hidden = first.expand(BATCH, -1) if state is None else state[0]
    output, h_n = layer(x, state, lengths=lengths)
    pi = layer.state_distribution(x, lengths, hidden=hidden)
    assert_close([pi.sum(-1)], [torch.ones(BATCH, TIME, dtype=torch.float64)])
    for i, length in enumerate([TIME] * BATCH if lengths is None else lengths.tolist()):
        assert_close([output[i, :length]], [pi[i, :length] @ layer.states])
        assert not output[i, length:].any()
        assert_close([h_n[0, i]], [pi[i, length - 1] @ layer.states])


def test_the_state_distribution_is_the_product_of_its_transition_matrices() -> None:
    layer, x = some_layer("GRU", initial="first"), some_inputs()
    first, matrices = layer.chain(x)
    assert_close([first], [layer.first_distribution(x[:, 0])])
    assert_close([first], [layer.transition_matrices(x[:, 0])[:, 0]])  # from the first state
    assert_close([matrices], [layer.transition_matrices(x)[:, 1:]])
    pi = first
    for t in range(TIME - 1):
        pi = torch.einsum("bi,bij->bj", pi, matrices[:, t])
    assert_close([layer.state_distribution(x)[:, -1]], [pi])


def test_the_exact_distribution_is_the_limit_of_hard_sampling() -> None:
    layer, samples = some_layer("GRU", mode="hard"), 5000
    x = some_inputs()
    pi = layer.state_distribution(x, LENGTHS)[torch.arange(BATCH), LENGTHS - 1]
    with torch.no_grad():
        alpha = layer.transitions(x, LENGTHS, noise=some_noise(samples=samples))
    sampled = alpha.reshape(samples, BATCH, TIME, STATES).mean(0)[torch.arange(BATCH), LENGTHS - 1]
    assert ((sampled - pi).abs() < 4 * (pi * (1 - pi) / samples).sqrt()).all()


def test_the_exact_mode_trains_every_weight_but_the_temperature() -> None:
    layer = some_layer("GRU", mode="exact")
    slopes = gradients(layer, apart(layer(some_inputs(), lengths=LENGTHS)))
    assert slopes.keys() == dict(layer.named_parameters()).keys() - {"log_temperature_l0"}
    assert all(slope.any() for slope in slopes.values())


def test_gradients_of_the_exact_mode_are_those_of_finite_differences() -> None:
    layer = some_layer("GRU", mode="exact")
    x, h = some_inputs()[:2, :3].requires_grad_(), some_state(layer, 2).requires_grad_()
    names = [name for name, _ in layer.named_parameters() if not name.startswith("log")]

    def results(inputs: Tensor, state: Tensor, *weights: Tensor) -> Any:
        packed = pack_padded_sequence(inputs, torch.tensor([2, 3]), batch_first=True, enforce_sorted=False)
        given_weights = dict(zip(names, weights, strict=True))
        output, h_n = torch.func.functional_call(layer, given_weights, (packed, state))
        return output.data, h_n

    assert torch.autograd.gradcheck(results, (x, h, *(layer.get_parameter(name) for name in names)))


# -- a layer as a value --------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", ["all", "last"])
@pytest.mark.parametrize("lengths", [None, [11, 1, 5]])
def test_exact_features_of_tokens_are_those_of_their_vectors(
    steps: Literal["all", "last"], lengths: list[int] | None
) -> None:
    layer = STTauGRU(4, 8, 5, batch_first=True, mode="exact").double()
    table = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    tokens, valid = torch.randint(9, (3, 11)), None if lengths is None else torch.tensor(lengths)
    found = layer.features(tokens, valid, embedding=table, steps=steps)
    expected = layer.features(table[tokens], valid, steps=steps)
    torch.testing.assert_close(found, expected)
    slope, true_slope = (torch.autograd.grad(output.square().sum(), table)[0] for output in (found, expected))
    torch.testing.assert_close(slope, true_slope)


def test_exact_mode_with_lengths_is_compiled_as_one_graph() -> None:
    layer, lengths = some_layer("GRU", mode="exact"), torch.tensor([3, 6, 1, 4])
    x = some_inputs()
    compiled = torch.compile(lambda x, lengths: layer.features(x, lengths), backend="eager", fullgraph=True)
    with torch.no_grad():
        assert_close([compiled(x, lengths)], [layer.features(x, lengths)])
