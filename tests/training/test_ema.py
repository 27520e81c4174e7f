"""The moving average of the weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sttau import SequenceClassifier, STTauGRU
from sttau.training import fit
from sttau.training.ema import EMA
from tests.training.small_runs import signs, weights_of


def test_it_begins_as_the_plain_mean_and_then_decays() -> None:
    weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    ema, values = EMA([weight], 0.9), [0.0]
    for number in range(1, 30):
        with torch.no_grad():
            weight.fill_(number)
        ema.update(number)
        values.append(float(number))
        if number < 9:  # 1 / (1 + number) is larger than 1 - decay
            assert torch.allclose(ema.weights[0], torch.tensor(values).double().mean())
    expected = torch.tensor(values[:10]).double().mean()
    for number in range(10, 30):
        expected = expected + 0.1 * (number - expected)
    torch.testing.assert_close(ema.weights[0][0], expected)


def test_a_rate_on_the_device_gives_the_same() -> None:
    weight = nn.Parameter(torch.randn(5))
    one, other = EMA([weight], 0.9), EMA([weight], 0.9)
    with torch.no_grad():
        weight.add_(1)
    one.update(20)
    other.update_by(torch.tensor(one.rate(20)))
    torch.testing.assert_close(one.weights, other.weights)


def test_it_is_applied_inside_a_context_only() -> None:
    weight = nn.Parameter(torch.zeros(2))
    ema = EMA([weight], 0.9)
    with torch.no_grad():
        weight.fill_(3.0)
    with ema.applied():
        assert weight.tolist() == [0.0, 0.0]
    assert weight.tolist() == [3.0, 3.0]


def test_an_average_of_the_weights_is_validated_and_kept_while_training_goes_its_own_way() -> None:
    x, y, lengths = signs()

    def train(**options: Any) -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(0)
        model, seen = SequenceClassifier(STTauGRU(2, 4, 3), 2), list[Tensor]()
        fit(
            model,
            x,
            y,
            lengths,
            updates=30,
            learning_rate=0.05,
            callbacks=lambda _: seen.append(weights_of(model)),
            **options,
        )
        return weights_of(model), seen

    plain, path = train()
    mean, same_path = train(ema_decay=0.8)
    assert all(torch.equal(a, b) for a, b in zip(path, same_path, strict=True))
    torch.manual_seed(0)
    expected = weights_of(SequenceClassifier(STTauGRU(2, 4, 3), 2))
    for number, weights in enumerate(path, 1):
        expected = expected.lerp(weights, max(0.2, 1 / (1 + number)))
    torch.testing.assert_close(mean, expected)
    assert not torch.allclose(mean, plain)

    torch.manual_seed(0)
    model, validated = SequenceClassifier(STTauGRU(2, 4, 3), 2), list[Tensor]()

    def validate() -> float:
        validated.append(weights_of(model))
        return -float(len(validated))

    fit(model, x, y, lengths, updates=30, learning_rate=0.05, ema_decay=0.8, validation=validate, validate_every=30)
    torch.testing.assert_close(validated[-1], expected)
    assert torch.equal(weights_of(model), validated[-1])
