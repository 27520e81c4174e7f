"""Layers that draw weights or masks stand in the place of ``nn.LSTM``, however their input is shaped."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sttau.engine import Noise, stacked
from sttau.layers import LAYERS, BayesLSTM, HeadDropoutLSTM, LSTMLayer, VariationalDropoutLSTM

EXACTLY = 1e-12  # for sums in float64 that differ only in their order
LENGTHS = torch.tensor([3, 6, 1, 4])
KINDS: list[type[LSTMLayer]] = [BayesLSTM, VariationalDropoutLSTM]
KIND = pytest.mark.parametrize("kind", KINDS)
SHAPED = pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True}, {"bias": False}],
    ids=str,
)


def close(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=0, atol=EXACTLY)


def some_layer(kind: Any, **options: Any) -> Any:
    return kind(3, 4, **({"dtype": torch.float64, "batch_first": True} | options))


def some_inputs() -> Tensor:
    return torch.randn(4, 6, 3, dtype=torch.float64)


def plain(layer: Any) -> nn.LSTM:
    """``nn.LSTM`` with the same weights; for Bayes with the means."""
    names = ("num_layers", "bias", "batch_first", "bidirectional")
    other = nn.LSTM(3, 4, **{name: getattr(layer, name) for name in names}, dtype=torch.float64)
    missing = layer.load_state_dict(other.state_dict(), strict=False)  # weights of a plain layer load
    assert all(name.endswith("_rho") for name in missing.missing_keys)
    return other


def without_randomness(layer: Any) -> Any:
    """The limit in which the layer is ``nn.LSTM``: σ → 0, or a rate too small to drop anything."""
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            if name.endswith("_rho"):
                weight.fill_(-torch.inf)
    if isinstance(layer, VariationalDropoutLSTM):
        layer.dropout = 1e-12
    return layer


@KIND
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "padded"])
def test_samples_of_a_prediction_may_be_run_at_once(
    kind: Any, lengths: Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, noise = some_inputs(), Noise.of(torch.arange(4), 3, seed=5)
    layer = some_layer(kind)
    with torch.no_grad():
        want = layer.features(x, lengths, noise=noise, steps="last")
        monkeypatch.setattr(stacked, "is_fast", lambda x: True)
        ran = []

        def run(*given: Any, whole: Any = stacked.run) -> Any:
            ran.append(given)
            return whole(*given)

        monkeypatch.setattr(stacked, "run", run)
        close(layer.features(x, lengths, noise=noise, steps="last"), want)
        assert ran
        other = Noise.of(torch.arange(3), 1, seed=5)
        with pytest.raises(ValueError, match="noise has 3 rows, which is not a multiple of the 4 sequences"):
            layer.features(x, lengths, noise=other, steps="last")
        ran.clear()
        layer.features(x, lengths, noise=noise, steps="last", mode="deterministic")
        some_layer(kind, num_layers=2).features(x, lengths, noise=noise, steps="last")
    layer.features(x, lengths, noise=noise, steps="last")
    assert not ran  # where nothing is drawn, not for several layers, and not where a gradient is wanted


@KIND
@SHAPED
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("how", ["limit", "deterministic"])
def test_without_randomness_it_is_nn_lstm_in_values_and_gradients(
    kind: Any, options: Any, ragged: bool, how: str
) -> None:
    layer = some_layer(kind, **options)
    other = plain(layer)
    mode = "deterministic" if how == "deterministic" else "sampled"
    if how == "limit":
        layer = without_randomness(layer)
    x, count = some_inputs(), layer.num_layers * layer.num_directions
    start = tuple(torch.randn(2, count, 4, 4, dtype=torch.float64))
    factor = torch.randn(4, 6, 4 * layer.num_directions, dtype=torch.float64)

    def total(output: Tensor, ends: tuple[Tensor, Tensor]) -> Tensor:
        return (output * factor).sum() + ends[0].square().sum() + ends[1].exp().sum()

    if ragged:
        packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
        given, want_ends = other(packed, start)
        want = pad_packed_sequence(given, batch_first=True)[0]
    else:
        want, want_ends = other(x, start)
    got, ends = layer(x, start, lengths=LENGTHS if ragged else None, mode=mode)
    for ours, theirs in zip((got, *ends), (want, *want_ends), strict=True):
        close(ours, theirs)
    total(want, want_ends).backward()
    total(got, ends).backward()
    for name, weight in other.named_parameters():
        torch.testing.assert_close(layer.get_parameter(name).grad, weight.grad, rtol=0, atol=EXACTLY)


@KIND
@SHAPED
def test_a_packed_sequence_is_read_as_padded_input_with_lengths(kind: Any, options: Any) -> None:
    layer, x, noise = some_layer(kind, **options), some_inputs(), Noise.of(torch.arange(4))
    packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    output, (h, c) = layer(packed, noise=noise)
    assert isinstance(output, PackedSequence)
    want, (h_n, c_n) = layer(x, lengths=LENGTHS, noise=noise)
    close(pad_packed_sequence(output, batch_first=True)[0], want)
    close(h, h_n)
    close(c, c_n)
    for row, length in enumerate(LENGTHS.tolist()):  # and as each sequence alone, without padding
        alone, (h, c) = layer(x[row : row + 1, :length], noise=Noise.of(torch.tensor([row])))
        close(want[row, :length], alone[0])
        close(h_n[:, row], h[:, 0])
        close(c_n[:, row], c[:, 0])
        assert not bool(want[row, length:].any())


@KIND
def test_time_may_stand_first_and_one_sequence_alone(kind: Any) -> None:
    layer, x, noise = some_layer(kind, num_layers=2), some_inputs(), Noise.of(torch.arange(4))
    want, (h_n, _) = layer(x, noise=noise)
    layer.batch_first = False
    got, (h, _) = layer(x.transpose(0, 1), noise=noise)
    close(got.transpose(0, 1), want)
    close(h, h_n)
    one, (h, _) = layer(x[0], noise=Noise.of(torch.arange(1)))
    assert one.shape == (6, 4)
    close(one, want[0])
    close(h, h_n[:, 0])


@KIND
@SHAPED
def test_features_are_what_forward_gives_and_the_last_step_is_where_each_direction_ends(
    kind: Any, options: Any
) -> None:
    layer, x, noise = some_layer(kind, **options), some_inputs(), Noise.of(torch.arange(4), samples=3)
    output, (h_n, _) = layer(x, lengths=LENGTHS, noise=noise)
    assert output.shape[0] == 12
    close(layer.features(x, LENGTHS, noise=noise), output)
    last = layer.features(x, LENGTHS, noise=noise, steps="last")
    close(last[:, 0], h_n[-layer.num_directions :].transpose(0, 1).flatten(1))
    table, tokens = torch.randn(5, 3, dtype=torch.float64), torch.randint(5, (4, 6))
    close(
        layer.features(tokens, LENGTHS, noise=noise, embedding=table),
        layer.features(table[tokens], LENGTHS, noise=noise),
    )


@KIND
def test_samples_together_are_the_samples_one_by_one(kind: Any) -> None:
    layer, x, names = some_layer(kind, num_layers=2, bidirectional=True), some_inputs(), torch.arange(4)
    together = layer.features(x, LENGTHS, noise=Noise.of(names, samples=3))
    apart = [layer.features(x, LENGTHS, noise=Noise.of(names, first_sample=run)) for run in range(3)]
    close(together, torch.cat(apart))
    assert not torch.allclose(apart[0], apart[1], atol=1e-3)


@KIND
def test_fresh_draws_come_from_pytorch_s_generator_in_training_and_in_evaluation(kind: Any) -> None:
    layer, x = some_layer(kind).eval(), some_inputs()
    torch.manual_seed(5)
    first, second = layer(x)[0], layer(x)[0]
    torch.manual_seed(5)
    assert torch.equal(layer(x)[0], first)
    assert not torch.equal(first, second)


@KIND
def test_it_is_registered_and_its_config_makes_one_like_it(kind: Any) -> None:
    assert LAYERS[kind.__name__] is kind
    options: dict[str, Any] = {
        "input_size": 3,
        "hidden_size": 4,
        "num_layers": 2,
        "bias": False,
        "batch_first": True,
        "dropout": 0.25,
    }
    options |= {"bidirectional": True}
    options |= (
        {"mean": 0.01, "rho": -2.0, "prior_scale": 0.5, "prior_mixture": [0.25, 0.1]} if kind is BayesLSTM else {}
    )
    options |= {"input_dropout": 0.5} if kind is VariationalDropoutLSTM else {}
    layer: Any = kind(**options)
    assert layer.config() == options
    assert "dropout=0.25" in repr(layer)
    names = list(inspect.signature(kind).parameters)
    assert names[:7] == list(options)[:7]  # in the order of nn.LSTM


@KIND
def test_it_can_be_copied_after_a_pass(kind: Any) -> None:
    options: dict[str, Any] = {"prior_mixture": (0.5, 0.1)} if kind is BayesLSTM else {}
    layer, x, noise = some_layer(kind, **options), some_inputs(), Noise.of(torch.arange(4))
    want = layer(x, noise=noise)[0]
    close(copy.deepcopy(layer)(x, noise=noise)[0], want)


@KIND
def test_half_precision_runs(kind: Any) -> None:
    layer = some_layer(kind, dtype=torch.bfloat16, bidirectional=True)
    output, (h_n, _) = layer(some_inputs().bfloat16())
    assert output.dtype == h_n.dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer.float()(some_inputs().float())[0].sum().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in layer.parameters())


@KIND
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda layer, x: layer(x.float()), TypeError, "input is torch.float32, but the layer's weights are"),
        (lambda layer, x: layer(x[..., :2]), ValueError, "input has 2 features per step, but input_size is 3"),
        (lambda layer, x: layer(x[:0]), ValueError, "input is empty"),
        (lambda layer, x: layer(x, mode="soft"), ValueError, "mode must be one of 'sampled', 'deterministic'"),
        (lambda layer, x: layer(x, torch.zeros(1, 4, 4)), TypeError, r"hx must be the pair \(h_0, c_0\)"),
        (lambda layer, x: layer(x, (torch.zeros(1, 2, 4),) * 2), ValueError, "h_0 must have shape"),
        (lambda layer, x: layer(x, lengths=torch.tensor([7, 1, 1, 1])), ValueError, "must not exceed the 6 steps"),
        (lambda layer, x: layer(x, noise=Noise.of(torch.arange(5))), ValueError, "noise has 5 rows"),
        (lambda layer, x: type(layer)(0, 4), ValueError, "input_size must be at least 1"),
        (lambda layer, x: type(layer)(3, 4, dropout=1.0), ValueError, r"dropout must be in \[0, 1\), got 1.0"),
    ],
)
def test_what_cannot_be_is_refused_by_name(kind: Any, call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(some_layer(kind), some_inputs())


@pytest.mark.parametrize("kind", [*KINDS, HeadDropoutLSTM])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("mode", ["sampled", "deterministic"])
def test_nan_in_the_padding_reaches_no_gradient(kind: Any, bidirectional: bool, mode: Any) -> None:
    layer, x, noise = some_layer(kind, bidirectional=bidirectional), some_inputs(), Noise.of(torch.arange(4))
    every = []
    for padding in (0.0, torch.nan):
        layer.zero_grad()
        padded = x.masked_fill((torch.arange(6) >= LENGTHS[:, None])[..., None], padding).requires_grad_()
        output = layer.features(padded, LENGTHS, noise=noise, mode=mode)
        output.square().sum().backward()
        slopes = [weight.grad for weight in layer.parameters() if weight.grad is not None]
        every.append([output, padded.grad, *slopes])
    for one, other in zip(*every, strict=True):
        close(other, one)


@pytest.mark.parametrize("kind", [*KINDS, HeadDropoutLSTM])
def test_lengths_can_be_compiled(kind: Any) -> None:
    layer, x, noise = some_layer(kind), some_inputs(), Noise.of(torch.arange(4))
    compiled: Any = torch.compile(layer, backend="eager")
    with torch.no_grad():
        output, (h_n, c_n) = compiled(x, lengths=LENGTHS, noise=noise)
        expected, ends = layer(x, lengths=LENGTHS, noise=noise)
    for found, want in zip((output, h_n, c_n), (expected, *ends), strict=True):
        close(found, want)


def test_variational_dropout_is_exported_with_its_gradients() -> None:
    layer, x = some_layer(VariationalDropoutLSTM, dropout=0.3), some_inputs()
    exported = torch.export.export(layer, (x,)).module()
    slopes = []
    for module in (exported, layer):
        torch.manual_seed(0)
        slopes.append(torch.autograd.grad(module(x)[0].square().sum(), list(module.parameters())))
    for found, want in zip(*slopes, strict=True):
        torch.testing.assert_close(found, want)
