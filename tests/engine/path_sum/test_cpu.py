"""The CPU kernels of the path sum against the reference; test_reference.py holds them to enumeration of paths."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import sttau
from sttau.engine import Weights, path_sum
from sttau.engine.backend import Engine, using


def _weights(k: int, d: int, features: int, dtype: torch.dtype) -> Weights:
    generator = torch.Generator().manual_seed(k * d)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    return Weights(
        input=draw(3 * d, features), recurrent=draw(3 * d, d), input_bias=draw(3 * d), recurrent_bias=draw(3 * d),
        states=draw(k, d), temperature=torch.ones((), dtype=dtype),
    )  # fmt: skip


def _gradients(engine: Engine, x: Tensor, weights: Weights, lengths: Tensor | None, threads: int) -> list[Tensor]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        first = path_sum.transition_rows(x[:, 0], weights.states[:1], weights, engine=engine)[:, 0]
        matrices = path_sum.transition_matrices(x[:, 1:], weights, engine=engine)
        pi = path_sum.state_distribution(first, matrices, lengths, engine=engine)
        scores = torch.linspace(-1, 1, pi.numel(), dtype=pi.dtype).view_as(pi)
        learned = [part for part in (*weights[:5], x) if part is not None]
        return [pi.detach(), *torch.autograd.grad((pi * scores).sum(), learned)]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("k", "d", "batch", "time"),
    [(1, 1, 1, 2), (2, 5, 3, 4), (10, 64, 4, 30), (17, 16, 2, 90), (33, 7, 2, 5), (3, 4, 2, 300), (3, 80, 1, 600)],
)
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "lengths"])
def test_values_and_gradients_are_those_of_the_reference(k: int, d: int, batch: int, time: int, padded: bool) -> None:
    for dtype, tolerance in ((torch.float64, 1e-11), (torch.float32, 2e-4)):
        x = torch.randn(batch, time, 3, dtype=torch.float64).to(dtype).requires_grad_()
        lengths = torch.randint(1, time + 1, (batch,)) if padded else None
        weights = _weights(k, d, 3, dtype)
        expected = _gradients("reference", x, weights, lengths, 1)
        found = _gradients("cpu", x, weights, lengths, 1)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


def test_values_do_not_depend_on_the_number_of_threads() -> None:
    x, weights = torch.randn(6, 40, 3, requires_grad=True), _weights(10, 64, 3, torch.float32)
    alone, shared = (_gradients("cpu", x, weights, None, threads) for threads in (1, 3))
    assert torch.equal(alone[0], shared[0])
    for one, other in zip(alone[1:], shared[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * float(one.abs().max()))


def test_float32_stays_close_to_float64_over_3000_steps() -> None:
    layer = sttau.STTauGRU(4, 16, 12, mode="exact")
    x = torch.randn(2, 2956, 4)
    layer.requires_grad_(False)
    exact = layer.double().state_distribution(x.double())
    found = layer.float().state_distribution(x)
    assert float((found - exact).abs().max()) < 1e-6


def test_a_model_of_tokens_trains_to_the_same_loss() -> None:
    tokens, labels = torch.randint(0, 7, (8, 20)), torch.randint(0, 2, (8,))
    losses = []
    for engine in ("reference", "cpu"):
        torch.manual_seed(0)
        model = sttau.SequenceClassifier(sttau.STTauGRU(4, 8, 5, mode="exact"), 2, embedding=nn.Embedding(7, 4))
        with using(engine):
            log = sttau.fit(model, tokens, labels, updates=20, learning_rate=0.02, seed=0)
        losses.append(log[-1].loss)
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_a_second_derivative_is_refused_on_the_kernels_and_available_on_the_reference() -> None:
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    weights = _weights(3, 4, 3, torch.float64)

    def slope(engine: Engine) -> Tensor:
        matrices = path_sum.transition_matrices(x, weights, engine=engine)
        return torch.autograd.grad(matrices.square().sum(), x, create_graph=True)[0].sum()

    torch.autograd.grad(slope("reference"), x)
    with pytest.raises(RuntimeError, match="second derivatives"):
        slope("cpu")


@pytest.mark.parametrize(
    ("name", "matrices", "lengths", "places"),
    [
        ("matrices", (3, 5, 2, 2), None, None),
        ("matrices", (4, 5, 3, 3), None, None),
        ("matrices", (7, 3, 2), None, (4, 5)),
        ("places", (7, 2, 2), None, (3, 5)),
        ("lengths", (4, 5, 2, 2), (3,), None),
    ],
)
def test_tensors_of_different_batches_are_refused(
    name: str, matrices: tuple[int, ...], lengths: tuple[int, ...] | None, places: tuple[int, ...] | None
) -> None:
    steps, numbers = (None if shape is None else torch.ones(shape, dtype=torch.int64) for shape in (lengths, places))
    with pytest.raises(ValueError, match=f"{name} must have shape"):
        path_sum.state_distribution(torch.rand(4, 2), torch.rand(matrices), steps, places=numbers)


def test_the_number_of_a_matrix_that_does_not_exist_is_refused() -> None:
    for place in (-1, 7):
        with pytest.raises(IndexError, match=r"places must be in 0 … 6"):
            path_sum.state_distribution(torch.rand(1, 2), torch.rand(7, 2, 2), places=torch.tensor([[0, place]]))
