"""The baselines on a real GPU: cuDNN for drawn weights, Triton for masks."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import BayesLSTM, SequenceClassifier, VariationalDropoutLSTM, predict
from sttau.engine import Engine, Noise, masked, using
from sttau.engine.masked import MaskedWeights

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

KINDS = [BayesLSTM, VariationalDropoutLSTM]


@pytest.fixture(autouse=True)
def _whole_float32() -> Any:
    """cuDNN takes TF32 by default, and is then no measure for anything else."""
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = allowed


def answers(engine: Engine, time: int, rows: int, features: int, size: int, ragged: bool) -> list[Tensor]:
    torch.manual_seed(1)

    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        return (scale * torch.randn(shape, device="cuda")).requires_grad_()

    weights = [draw(4 * size, features, scale=features**-0.5), draw(4 * size, size, scale=size**-0.5), draw(4 * size)]
    x, hidden, memory = draw(time, rows, features), draw(rows, size), draw(rows, size)
    mask = (torch.rand(rows, size, device="cuda") > 0.3).float() / 0.7
    lengths = torch.randint(1, time + 1, (rows,), device="cuda") if ragged else None
    with using(engine):
        output, last = masked.run(x, MaskedWeights(*weights), mask, hidden, memory, lengths)
    total = (output * torch.randn_like(output)).sum() + (last * torch.randn_like(last)).sum()
    return [output.detach(), last.detach(), *torch.autograd.grad(total, [x, *weights, hidden, memory])]


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize(
    ("time", "rows", "features", "size"),
    [
        (6, 5, 3, 7),
        (9, 20, 4, 33),
        (50, 17, 8, 100),
        (187, 40, 1, 128),
        (60, 8, 16, 256),
        (20, 3, 4, 300),
        (7, 4, 2, 512),
    ],
)
def test_the_kernels_compute_what_the_reference_does(
    time: int, rows: int, features: int, size: int, ragged: bool
) -> None:
    got, want = (answers(engine, time, rows, features, size, ragged) for engine in ("triton", "reference"))
    for a, b in zip(got, want, strict=True):
        assert float((a - b).norm()) < 1e-4 * float(b.norm()) + 1e-6


def test_wider_layers_and_float64_run_step_by_step() -> None:
    for options in ({"dtype": torch.float64}, {}):
        layer = VariationalDropoutLSTM(3, 600, device="cuda", **options)  # type: ignore[arg-type]
        x = torch.randn(4, 2, 3, device="cuda", **options)  # type: ignore[call-overload]
        layer(x)[0].sum().backward()
        assert bool(layer.get_parameter("weight_hh_l0").grad.isfinite().all())  # type: ignore[union-attr]


def test_the_same_twice_is_the_same_to_the_bit() -> None:
    first, second = answers("triton", 100, 50, 3, 128, True), answers("triton", 100, 50, 3, 128, True)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_gives_what_a_cpu_gives(kind: Any, options: Any) -> None:
    layer, x = kind(6, 40, batch_first=True, **options), torch.randn(5, 30, 6)
    lengths, noise = torch.tensor([30, 2, 1, 17, 30]), Noise.of(torch.arange(5), samples=2)
    here = layer(x, lengths=lengths, noise=noise)[0]
    layer.zero_grad()
    here.square().sum().backward()
    want = [weight.grad.clone() for weight in layer.parameters()]
    layer.cuda().zero_grad()
    away = Noise.of(torch.arange(5, device="cuda"), samples=2)
    there = layer(x.cuda(), lengths=lengths.cuda(), noise=away)[0]
    there.square().sum().backward()
    torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-5)
    for weight, gradient in zip(layer.parameters(), want, strict=True):
        torch.testing.assert_close(weight.grad.cpu(), gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=str)
@pytest.mark.parametrize("mode", ["sampled", "deterministic"])
def test_cudnn_takes_the_drawn_weights_as_they_lie(options: Any, mode: Any) -> None:
    """Weights that are scattered in memory would be copied at every call, with a warning."""
    layer = BayesLSTM(8, 32, device="cuda", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(torch.randn(10, 4, 8, device="cuda"), mode=mode)[0].sum().backward()


def test_dropout_that_is_switched_off_runs_on_cudnn_without_a_warning() -> None:
    layer, x = VariationalDropoutLSTM(8, 32, dropout=0.0, device="cuda"), torch.randn(10, 4, 8, device="cuda")
    plain = nn.LSTM(8, 32, device="cuda")
    plain.load_state_dict(layer.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(layer(x)[0], plain(x)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_step_can_be_captured_and_draws_anew_at_every_replay(kind: Any) -> None:
    layer, x = kind(6, 100, batch_first=True, device="cuda"), torch.randn(8, 50, 6, device="cuda")

    def step() -> Tensor:
        layer.zero_grad(set_to_none=True)
        output: Tensor = layer.features(x, steps="last")
        output.square().mean().backward()
        return output

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = step()
    seen = []
    for _ in range(3):
        graph.replay()
        seen.append(output.clone())
    assert all(bool(value.isfinite().all()) for value in seen)
    assert not torch.equal(seen[0], seen[1])


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_those_of_a_cpu(kind: Any) -> None:
    model, x = SequenceClassifier(kind(6, 40), 3), torch.randn(50, 20, 6)
    here = predict(model, x, samples=5)
    there = predict(model.cuda(), x, samples=5)
    torch.testing.assert_close(there.mean.cpu(), here.mean, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_trains_in_half_precision(kind: Any) -> None:
    layer, x = kind(6, 40, device="cuda"), torch.randn(20, 5, 6, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        layer(x)[0].float().square().mean().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in layer.parameters())
