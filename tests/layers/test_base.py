"""What all layers share: noise, samples, dropout, dtypes, and a layer as a value."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from sttau.engine import Noise
from sttau.layers import LAYERS, LayerMode, STTauGRU, STTauLSTM
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
    WAY,
    apart,
    assert_close,
    gradients,
    some_inputs,
    some_layer,
    some_noise,
    some_state,
)

# -- the interface of nn.LSTM and nn.GRU ---------------------------------------------------------------------


def test_layers_are_registered_under_their_own_names() -> None:
    assert {name: layer.__name__ for name, layer in LAYERS.items()} == {name: name for name in LAYERS}
    assert {STTauLSTM, STTauGRU} <= set(LAYERS.values())


# -- packed, padded, one at a time ---------------------------------------------------------------------------


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


# -- what is refused -----------------------------------------------------------------------------------------


@KIND
@pytest.mark.parametrize("rows", [1, BATCH - 1, BATCH + 1])
def test_noise_for_another_number_of_sequences_is_refused(kind: str, rows: int) -> None:
    with pytest.raises(ValueError, match=f"noise has {rows} rows, which is not a multiple of the 4 sequences"):
        some_layer(kind)(some_inputs(), noise=some_noise(rows))


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
