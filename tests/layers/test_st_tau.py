"""The ST-τ layers stand in the place of ``nn.LSTM`` and ``nn.GRU``, however their input is shaped."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sttau.engine import Noise, using
from sttau.layers import LAYERS, FiniteStateRNN, LayerMode, STTauGRU, STTauLSTM

INPUT, HIDDEN, STATES, BATCH, TIME = 3, 4, 5, 4, 6
LENGTHS = torch.tensor([3, 6, 1, 4])
OURS: dict[str, type[FiniteStateRNN]] = {"LSTM": STTauLSTM, "GRU": STTauGRU}
THEIRS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"LSTM": nn.LSTM, "GRU": nn.GRU}

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


@KIND
@pytest.mark.parametrize("batch_first", [False, True], ids=["", "batch_first"])
@LAYERED
@BIDIRECTIONAL
@pytest.mark.parametrize("form", ["batched", "unbatched", "sorted", "sorted, not enforced", "unsorted"])
@pytest.mark.parametrize("with_state", [False, True], ids=["", "state"])
def test_results_have_the_shapes_of_pytorchs(
    kind: str, batch_first: bool, num_layers: int, bidirectional: bool, form: str, with_state: bool
) -> None:
    options: dict[str, Any] = {
        "batch_first": batch_first,
        "num_layers": num_layers,
        "bidirectional": bidirectional,
    }
    ours, theirs = some_layer(kind, **options), THEIRS[kind](INPUT, HIDDEN, dtype=torch.float64, **options)
    x: Any = torch.randn(BATCH, TIME, INPUT, dtype=torch.float64)
    if form == "unbatched":
        x = x[0]
    elif form == "batched":
        x = x if batch_first else x.transpose(0, 1)
    else:
        lengths = LENGTHS if form == "unsorted" else LENGTHS.sort(descending=True).values
        x = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=form == "sorted")
    state = some_state(ours, *(() if form == "unbatched" else (BATCH,))) if with_state else None
    for mine, wanted in zip(apart(ours(x, state)), apart(theirs(x, state)), strict=True):
        if isinstance(wanted, PackedSequence):
            assert isinstance(mine, PackedSequence)
            assert mine.data.shape == wanted.data.shape
            assert torch.equal(mine.batch_sizes, wanted.batch_sizes)
            assert str(mine[2:]) == str(wanted[2:])  # the indices, or None
        else:
            assert mine.shape == wanted.shape


@KIND
@LAYERED
@BIDIRECTIONAL
@pytest.mark.parametrize("with_state", [False, True], ids=["", "state"])
def test_over_one_step_the_cell_readout_is_pytorchs_layer_with_the_same_weights(
    kind: str, num_layers: int, bidirectional: bool, with_state: bool
) -> None:
    options: dict[str, Any] = {"batch_first": True, "num_layers": num_layers, "bidirectional": bidirectional}
    ours = some_layer(kind, readout="cell", **options)
    theirs = THEIRS[kind](INPUT, HIDDEN, dtype=torch.float64, **options)
    ours.load_state_dict(theirs.state_dict(), strict=False)
    x = some_inputs()[:, :1]
    state = some_state(ours, BATCH) if with_state else None
    (output, _, *c_n), (wanted, _, *wanted_c_n) = apart(ours(x, state)), apart(theirs(x, state))
    assert_close([output, *c_n], [wanted, *wanted_c_n])


@KIND
@LAYERED
@BIDIRECTIONAL
@pytest.mark.parametrize("bias", [True, False], ids=["", "no bias"])
def test_parameters_of_pytorchs_layer_are_a_subset_of_ours(
    kind: str, num_layers: int, bidirectional: bool, bias: bool
) -> None:
    options: dict[str, Any] = {"num_layers": num_layers, "bidirectional": bidirectional, "bias": bias}
    ours, theirs = some_layer(kind, **options), THEIRS[kind](INPUT, HIDDEN, dtype=torch.float64, **options)
    loaded = ours.load_state_dict(theirs.state_dict(), strict=False)
    assert loaded.unexpected_keys == []
    assert {name.split("_l")[0] for name in loaded.missing_keys} == {"states", "log_temperature"}
    assert len(loaded.missing_keys) == 2 * num_layers * (2 if bidirectional else 1)
    for name, weight in theirs.named_parameters():
        assert torch.equal(dict(ours.named_parameters())[name], weight)


def test_layers_are_registered_under_their_own_names() -> None:
    assert {name: layer.__name__ for name, layer in LAYERS.items()} == {name: name for name in LAYERS}
    assert {STTauLSTM, STTauGRU} <= set(LAYERS.values())


# -- packed, padded, one at a time ---------------------------------------------------------------------------


@WAY
@pytest.mark.parametrize("with_state", [False, True], ids=["", "state"])
def test_packed_equals_padded_equals_one_sequence_at_a_time(
    kind: str, mode: LayerMode, num_layers: int, bidirectional: bool, with_state: bool
) -> None:
    layer = some_layer(kind, mode=mode, num_layers=num_layers, bidirectional=bidirectional)
    x, noise = some_inputs(), some_noise()
    state = some_state(layer, BATCH) if with_state else None
    padded = apart(layer(x, state, lengths=LENGTHS, noise=noise))
    packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    output, *last = apart(layer(packed, state, noise=noise))
    unpacked, lengths = pad_packed_sequence(output, batch_first=True)
    assert torch.equal(lengths, LENGTHS)
    assert_close([unpacked, *last], padded)
    for i, length in enumerate(LENGTHS.tolist()):
        own = None if state is None else tuple(s[:, i] for s in state) if kind == "LSTM" else state[:, i]
        alone = apart(layer(x[i, :length], own, noise=Noise.of(noise.sequence[i : i + 1], seed=6)))
        assert_close([padded[0][i, :length], *(part[:, i] for part in padded[1:])], alone)
        assert not padded[0][i, length:].any()


@WAY
def test_packed_and_padded_have_the_same_gradients(
    kind: str, mode: LayerMode, num_layers: int, bidirectional: bool
) -> None:
    layer = some_layer(kind, mode=mode, num_layers=num_layers, bidirectional=bidirectional)
    x, noise = some_inputs(), some_noise()
    padded = gradients(layer, apart(layer(x, lengths=LENGTHS, noise=noise)))
    packed_input = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    output, *last = apart(layer(packed_input, noise=noise))
    packed = gradients(layer, [pad_packed_sequence(output, batch_first=True)[0], *last])
    assert padded.keys() == packed.keys()
    assert_close(list(padded.values()), list(packed.values()))


@KIND
def test_a_sorted_packed_sequence_equals_the_same_one_not_known_to_be_sorted(kind: str) -> None:
    layer, x = some_layer(kind), some_inputs()
    lengths = LENGTHS.sort(descending=True).values
    known, unknown = (
        apart(layer(pack_padded_sequence(x, lengths, True, enforce_sorted=known), noise=some_noise()))
        for known in (True, False)
    )
    assert_close([known[0].data, *known[1:]], [unknown[0].data, *unknown[1:]])


@WAY
def test_what_stands_in_the_padding_does_not_matter(
    kind: str, mode: LayerMode, num_layers: int, bidirectional: bool
) -> None:
    layer = some_layer(kind, mode=mode, num_layers=num_layers, bidirectional=bidirectional)
    x = some_inputs()
    spoilt = x.masked_fill((torch.arange(TIME) >= LENGTHS[:, None])[..., None], torch.nan)
    clean, dirty = (apart(layer(part, lengths=LENGTHS, noise=some_noise())) for part in (x, spoilt))
    assert all(torch.equal(a, b) for a, b in zip(clean, dirty, strict=True))
    one, other = gradients(layer, clean), gradients(layer, dirty)
    assert all(torch.equal(one[name], other[name]) for name in one)


@WAY
@given(order=st.permutations(range(BATCH)))
def test_a_result_does_not_depend_on_the_order_of_the_batch(
    kind: str, mode: LayerMode, num_layers: int, bidirectional: bool, order: list[int]
) -> None:
    torch.manual_seed(2)
    layer = some_layer(kind, mode=mode, num_layers=num_layers, bidirectional=bidirectional)
    x, noise = some_inputs(), some_noise()
    shuffled = replace(noise, sequence=noise.sequence[order])
    with torch.no_grad():
        straight = layer.features(x, LENGTHS, noise=noise)
        assert_close([layer.features(x[order], LENGTHS[order], noise=shuffled)], [straight[order]])


@KIND
@MODE
@LAYERED
def test_a_sequence_read_in_two_pieces_equals_one_pass(kind: str, mode: LayerMode, num_layers: int) -> None:
    layer, x, noise = some_layer(kind, mode=mode, num_layers=num_layers), some_inputs(), some_noise()
    whole = apart(layer(x, noise=noise))
    start, state = layer(x[:, :2], noise=noise)
    rest = apart(layer(x[:, 2:], state, noise=replace(noise, first_step=2)))
    assert_close([torch.cat([start, rest[0]], dim=1), *rest[1:]], whole)


@KIND
@MODE
def test_the_last_states_are_those_of_the_last_steps_read(kind: str, mode: LayerMode) -> None:
    layer = some_layer(kind, mode=mode, num_layers=2, bidirectional=True)
    output, h_n, *_ = apart(layer(some_inputs(), lengths=LENGTHS, noise=some_noise()))
    assert_close([h_n[2]], [output[torch.arange(BATCH), LENGTHS - 1, :HIDDEN]])
    assert_close([h_n[3]], [output[:, 0, HIDDEN:]])


@KIND
@MODE
def test_batch_first_only_swaps_dimensions(kind: str, mode: LayerMode) -> None:
    layer = some_layer(kind, mode=mode, num_layers=2, bidirectional=True)
    other = type(layer)(**{**layer.config(), "batch_first": False}, dtype=torch.float64)
    other.load_state_dict(layer.state_dict())
    x = some_inputs()
    first = apart(layer(x, lengths=LENGTHS, noise=some_noise()))
    second = apart(other(x.transpose(0, 1), lengths=LENGTHS, noise=some_noise()))
    assert_close([second[0].transpose(0, 1), *second[1:]], first)


# -- features, transitions, samples --------------------------------------------------------------------------


@WAY
def test_features_are_the_output_whatever_batch_first_says(
    kind: str, mode: LayerMode, num_layers: int, bidirectional: bool
) -> None:
    options: dict[str, Any] = {"mode": mode, "num_layers": num_layers, "bidirectional": bidirectional}
    layer, x = some_layer(kind, batch_first=False, **options), some_inputs()
    features = layer.features(x, LENGTHS, noise=some_noise())
    assert torch.equal(features, layer(x.transpose(0, 1), lengths=LENGTHS, noise=some_noise())[0].transpose(0, 1))


@KIND
@MODE
@LAYERED
@BIDIRECTIONAL
def test_several_samples_equal_separate_calls(kind: str, mode: LayerMode, num_layers: int, bidirectional: bool) -> None:
    layer = some_layer(kind, mode=mode, num_layers=num_layers, bidirectional=bidirectional)
    x = some_inputs()
    state = some_state(layer, BATCH)
    together = apart(layer(x, state, lengths=LENGTHS, noise=some_noise(samples=3)))
    assert together[0].shape[0] == 3 * BATCH
    for sample in range(3):
        rows = slice(sample * BATCH, (sample + 1) * BATCH)
        noise = Noise.of(torch.arange(20, 20 + BATCH), 1, 6, first_sample=sample)
        alone = apart(layer(x, state, lengths=LENGTHS, noise=noise))
        assert_close([together[0][rows], *(part[:, rows] for part in together[1:])], alone)


@KIND
def test_several_samples_of_one_unbatched_sequence_are_a_batch(kind: str) -> None:
    layer, x = some_layer(kind), some_inputs()[0]
    output, h_n, *_ = apart(layer(x, noise=some_noise(1, samples=3)))
    assert output.shape == (3, TIME, HIDDEN)
    assert h_n.shape == (1, 3, HIDDEN)


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


# -- randomness ----------------------------------------------------------------------------------------------


@KIND
@pytest.mark.parametrize("mode", SAMPLED)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_fresh_noise_differs_between_calls_and_follows_the_global_seed(
    kind: str, mode: LayerMode, training: bool
) -> None:
    layer, x = some_layer(kind, mode=mode).train(training), some_inputs()
    torch.manual_seed(7)
    first, second = layer(x)[0], layer(x)[0]
    torch.manual_seed(7)
    again = layer(x)[0]
    assert not torch.equal(first, second)
    assert torch.equal(first, again)


@KIND
def test_rows_of_a_batch_draw_apart_even_when_they_are_equal(kind: str) -> None:
    layer = some_layer(kind)
    output = layer(some_inputs()[:1].expand(BATCH, -1, -1))[0]
    assert all(not torch.equal(output[i], output[j]) for i in range(BATCH) for j in range(i))


@WAY
def test_given_noise_leaves_the_global_generator_alone(
    kind: str, mode: LayerMode, num_layers: int, bidirectional: bool
) -> None:
    layer = some_layer(kind, mode=mode, num_layers=num_layers, bidirectional=bidirectional)
    x, noise = some_inputs(), None if mode in ("deterministic", "exact") else some_noise()
    before = torch.get_rng_state()
    first, second = layer(x, noise=noise)[0], layer(x, noise=noise)[0]
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


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


# -- dropout -------------------------------------------------------------------------------------------------


@KIND
def test_dropout_works_between_layers_in_training_and_nowhere_else(kind: str) -> None:
    layer, x = some_layer(kind, num_layers=2, dropout=0.5, mode="deterministic"), some_inputs()
    lower, upper = (
        OURS[kind](size, HIDDEN, STATES, batch_first=True, mode="deterministic", dtype=torch.float64)
        for size in (INPUT, HIDDEN)
    )
    weights = layer.state_dict()
    lower.load_state_dict({name: weights[name] for name in weights if name.endswith("_l0")})
    upper.load_state_dict({name.replace("_l1", "_l0"): weights[name] for name in weights if name.endswith("_l1")})
    for training in (True, False):
        layer.train(training)
        torch.manual_seed(5)
        output = layer(x)[0]
        torch.manual_seed(5)
        assert torch.equal(output, upper(nn.functional.dropout(lower(x)[0], 0.5, training))[0])


@KIND
def test_dropout_does_nothing_to_a_single_layer(kind: str) -> None:
    layer, x = some_layer(kind, dropout=0.9, mode="deterministic"), some_inputs()
    assert torch.equal(layer.train()(x)[0], layer.eval()(x)[0])


# -- dtypes --------------------------------------------------------------------------------------------------


@WAY
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_results_and_gradients_have_the_dtype_of_the_layer(
    kind: str, mode: LayerMode, num_layers: int, bidirectional: bool, dtype: torch.dtype
) -> None:
    layer = some_layer(kind, mode=mode, num_layers=num_layers, bidirectional=bidirectional, dtype=dtype)
    x = some_inputs(dtype)
    padded = apart(layer(x, lengths=LENGTHS))
    packed = layer(pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False))[0]
    for part in (*padded, packed.data, layer.transitions(x), *gradients(layer, padded).values()):
        assert part.dtype == dtype
        assert part.isfinite().all()


@WAY
def test_float32_follows_float64(kind: str, mode: LayerMode, num_layers: int, bidirectional: bool) -> None:
    layer = some_layer(kind, mode=mode, num_layers=num_layers, bidirectional=bidirectional)
    x = some_inputs()
    double = layer(x, lengths=LENGTHS, noise=some_noise())[0]
    single = layer.float()(x.float(), lengths=LENGTHS, noise=some_noise())[0]
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-4)


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


@KIND
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((BATCH, TIME, INPUT + 1), f"input has {INPUT + 1} features per step, but input_size is {INPUT}"),
        ((TIME, INPUT + 1), f"input has {INPUT + 1} features per step"),
        ((0, TIME, INPUT), "input is empty: 0 sequences of 6 steps"),
        ((BATCH, 0, INPUT), "input is empty: 4 sequences of 0 steps"),
        ((INPUT,), "input must have 2 dimensions .* or 3 .*, got 1"),
        ((1, BATCH, TIME, INPUT), "input must have 2 dimensions .* or 3 .*, got 4"),
    ],
)
def test_inputs_that_cannot_be_are_refused(kind: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        some_layer(kind)(torch.zeros(shape, dtype=torch.float64))


@pytest.mark.parametrize(("kind", "name"), [("LSTM", "h_0"), ("LSTM", "c_0"), ("GRU", "h_0")])
@pytest.mark.parametrize(
    ("unbatched", "shape"),
    [
        (False, (1, BATCH + 1, HIDDEN)),
        (False, (2, BATCH, HIDDEN)),
        (False, (1, HIDDEN)),
        (True, (1, 1, HIDDEN)),
    ],
)
def test_states_of_the_wrong_shape_are_refused_by_name(
    kind: str, name: str, unbatched: bool, shape: tuple[int, ...]
) -> None:
    layer, x = some_layer(kind), some_inputs()[0] if unbatched else some_inputs()
    right = torch.zeros((1, HIDDEN) if unbatched else (1, BATCH, HIDDEN), dtype=torch.float64)
    wrong = torch.zeros(shape, dtype=torch.float64)
    states = {("LSTM", "h_0"): (wrong, right), ("LSTM", "c_0"): (right, wrong), ("GRU", "h_0"): wrong}
    with pytest.raises(ValueError, match=rf"{name} must have shape .*, got \({', '.join(map(str, shape))}\)"):
        layer(x, states[kind, name])


@KIND
def test_lengths_beside_a_packed_sequence_are_refused(kind: str) -> None:
    packed = pack_padded_sequence(some_inputs(), LENGTHS, batch_first=True, enforce_sorted=False)
    with pytest.raises(ValueError, match="lengths are part of a PackedSequence"):
        some_layer(kind)(packed, lengths=LENGTHS)


@KIND
def test_several_samples_of_a_packed_sequence_are_refused(kind: str) -> None:
    packed = pack_padded_sequence(some_inputs(), LENGTHS, batch_first=True, enforce_sorted=False)
    with pytest.raises(ValueError, match=r"several samples .* PackedSequence"):
        some_layer(kind)(packed, noise=some_noise(samples=2))


@KIND
@pytest.mark.parametrize("rows", [1, BATCH - 1, BATCH + 1])
def test_noise_for_another_number_of_sequences_is_refused(kind: str, rows: int) -> None:
    with pytest.raises(ValueError, match=f"noise has {rows} rows, which is not a multiple of the 4 sequences"):
        some_layer(kind)(some_inputs(), noise=some_noise(rows))


@KIND
def test_an_unknown_mode_of_a_call_is_refused(kind: str) -> None:
    layer, x = some_layer(kind), some_inputs()
    calls: list[Callable[..., Any]] = [layer, layer.features, layer.transitions]
    for call in calls:
        with pytest.raises(ValueError, match=r"mode must be one of .*; got 'harder'"):
            call(x, mode="harder")


@pytest.mark.parametrize(("kind", "mode"), [("LSTM", "soft"), ("GRU", "soft"), ("GRU", "exact")])
@pytest.mark.parametrize("lengths", [[3], [3, 3, 3], [3, 0, 1, 2], [3, 1, 1, TIME + 1], [3, -1, 2, 1]], ids=str)
def test_lengths_that_cannot_be_are_refused(kind: str, mode: LayerMode, lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="lengths must"):
        some_layer(kind, mode=mode)(some_inputs(), lengths=torch.tensor(lengths))


# -- a layer as a value --------------------------------------------------------------------------------------


@WAY
def test_a_layer_comes_back_from_its_config_and_state_dict(
    kind: str, mode: LayerMode, num_layers: int, bidirectional: bool
) -> None:
    options: dict[str, Any] = {"num_layers": num_layers, "bidirectional": bidirectional, "temperature": 0.4}
    layer = some_layer(kind, mode=mode, bias=False, initial="first", learn_temperature=False, **options)
    with torch.no_grad():
        for tensor in layer.state_dict().values():
            tensor.add_(0.1)
    other = type(layer)(**layer.config(), dtype=torch.float64)
    assert other.config() == layer.config()
    other.load_state_dict(layer.state_dict())
    x = some_inputs()
    assert torch.equal(other(x, noise=some_noise())[0], layer(x, noise=some_noise())[0])


@KIND
def test_a_deep_copy_is_equal_and_independent(kind: str) -> None:
    layer, x = some_layer(kind, num_layers=2), some_inputs()
    layer(x)[0].sum().backward()
    twin = copy.deepcopy(layer)
    before = layer(x, noise=some_noise())[0]
    assert torch.equal(twin(x, noise=some_noise())[0], before)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(0.5)
    assert torch.equal(layer(x, noise=some_noise())[0], before)
    assert not torch.equal(twin(x, noise=some_noise())[0], before)


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
