"""Several LSTMs at once, at the sizes of the paper's networks and with TF32, as they are trained."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from sttau import SequenceClassifier
from sttau.engine import stacked
from sttau.inference import predict
from sttau.layers import BayesLSTM, VariationalDropoutLSTM

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def tf32() -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.backends.cudnn.allow_tf32 = before


def _error(ours: Tensor, theirs: Tensor) -> float:
    ours, theirs = ours.detach().double(), theirs.detach().double()
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("networks", "rows", "time", "size", "features"),
    [
        (12, 256, 187, 128, 1),
        (5, 256, 187, 128, 1),
        (16, 200, 50, 100, 3),
        (12, 8, 300, 256, 256),
        (10, 300, 60, 256, 256),
    ],
)
def test_it_is_nn_lstm_in_double_precision(
    networks: int, rows: int, time: int, size: int, features: int, masked: bool
) -> None:
    torch.manual_seed(0)
    layers = [nn.LSTM(features, size, batch_first=True, device="cuda") for _ in range(networks)]
    x = [torch.randn(rows, time, features, device="cuda", requires_grad=True) for _ in layers]
    lengths = [torch.randint(1, time + 1, (rows,), device="cuda") for _ in layers]
    ones = torch.ones(rows, size, device="cuda") if masked else None
    parts = [stacked.Part(p, stacked.Weights(*layer.parameters()), ones) for p, layer in zip(x, layers, strict=True)]
    wanted = [*x, *(weight for layer in layers for weight in layer.parameters())]
    ours = stacked.run(parts, lengths)
    direction = torch.randn_like(ours)
    mine = torch.autograd.grad(ours, wanted, direction)
    every = torch.arange(rows, device="cuda")
    theirs, expected = [], []
    for layer, part, length, way in zip(layers, x, lengths, direction, strict=True):
        exact, fine = layer.double(), part.detach().double().requires_grad_()
        theirs.append(exact(fine)[0][every, length - 1])
        expected.append(torch.autograd.grad(theirs[-1], [fine, *exact.parameters()], way.double()))
    assert _error(ours, torch.stack(theirs)) < 1e-3
    found = [torch.stack(values) for values in zip(*_by_network(mine, networks), strict=True)]
    for got, want in zip(found, zip(*expected, strict=True), strict=True):
        assert _error(got, torch.stack(want)) < 2e-3


def _by_network(gradients: tuple[Tensor, ...], networks: int) -> list[tuple[Tensor, ...]]:
    x, rest = gradients[:networks], gradients[networks:]
    return [(x[n], *rest[4 * n : 4 * n + 4]) for n in range(networks)]


@pytest.mark.parametrize("size", [128, 256])
@pytest.mark.parametrize("kind", [BayesLSTM, VariationalDropoutLSTM])
def test_predictions_are_those_of_one_sample_after_another(
    kind: type[BayesLSTM] | type[VariationalDropoutLSTM], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = SequenceClassifier(kind(3, size), 4).cuda()
    x, lengths = torch.randn(70, 60, 3), torch.randint(1, 61, (70,))
    at_once = predict(model, x, lengths, keep_samples=True)
    monkeypatch.setattr(stacked, "is_fast", lambda x: False)
    apart = predict(model, x, lengths, keep_samples=True)
    assert at_once.samples is not None
    assert apart.samples is not None
    assert _error(at_once.samples, apart.samples) < 1e-3
    assert _error(at_once.samples - at_once.mean, apart.samples - apart.mean) < 0.1  # and so are their differences
