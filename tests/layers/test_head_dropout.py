from __future__ import annotations

import torch
from torch import nn

import sttau
from sttau.engine import Noise
from sttau.layers import HeadDropoutLSTM


def test_the_recurrence_is_that_of_nn_lstm() -> None:
    layer, plain = HeadDropoutLSTM(3, 6, dropout=0.4), nn.LSTM(3, 6)
    layer.load_state_dict(plain.state_dict())
    x = torch.randn(5, 2, 3)
    expected, (h, c) = plain(x)
    output, (h_n, c_n) = layer(x)
    torch.testing.assert_close((h_n, c_n), (h, c))
    kept = output != 0
    torch.testing.assert_close(output[kept], expected[kept] / 0.6)
    assert bool((kept == kept[:1]).all())  # the same units at every step
    torch.testing.assert_close(layer(x, mode="deterministic")[0], expected)


def test_units_are_dropped_at_the_rate_and_differ_between_samples() -> None:
    mask = HeadDropoutLSTM(3, 64, dropout=0.25).output_mask(Noise.of(torch.arange(50), samples=4))
    assert abs(float((mask == 0).double().mean()) - 0.25) < 0.02
    assert not torch.equal(mask[:50], mask[50:100])


def test_a_prediction_has_an_epistemic_part() -> None:
    model = sttau.SequenceClassifier(HeadDropoutLSTM(3, 16, dropout=0.5), 2)
    with torch.no_grad():
        model.head.weight.mul_(10)
    x = torch.randn(4, 6, 3)
    assert bool((sttau.predict(model, x).epistemic > 0).all())
    stream = sttau.Stream(model, streams=4)
    for step in x.unbind(1):
        p = stream.step(step)
    torch.testing.assert_close(p.mean, sttau.predict(model, x, ids=torch.arange(4)).mean, rtol=0, atol=1e-6)
