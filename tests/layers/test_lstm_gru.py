"""The ST-τ layers stand in the place of ``nn.LSTM`` and ``nn.GRU``, however their input is shaped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sttau.engine import Noise
from sttau.layers import LayerMode
from tests.layers.small_layers import (
    BATCH,
    BIDIRECTIONAL,
    HIDDEN,
    INPUT,
    KIND,
    LAYERED,
    LENGTHS,
    MODE,
    TIME,
    WAY,
    apart,
    assert_close,
    gradients,
    some_inputs,
    some_layer,
    some_noise,
    some_state,
)

THEIRS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"LSTM": nn.LSTM, "GRU": nn.GRU}


# -- the interface of nn.LSTM and nn.GRU ---------------------------------------------------------------------


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


# -- what is refused -----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("kind", "mode"), [("LSTM", "soft"), ("GRU", "soft"), ("GRU", "exact")])
@pytest.mark.parametrize("lengths", [[3], [3, 3, 3], [3, 0, 1, 2], [3, 1, 1, TIME + 1], [3, -1, 2, 1]], ids=str)
def test_lengths_that_cannot_be_are_refused(kind: str, mode: LayerMode, lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="lengths must"):
        some_layer(kind, mode=mode)(some_inputs(), lengths=torch.tensor(lengths))
