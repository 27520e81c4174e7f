"""The path sum's kernels on a real GPU; float64 PyTorch is the oracle."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau import SequenceClassifier, STTauGRU
from sttau.engine import Engine, Weights, path_sum, using

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def _gradients(given: list[Tensor], lengths: Tensor | None, engine: Engine) -> list[Tensor]:
    """π of all steps from h_0 = s_1, and the gradient of a fixed sum of it for all that is given."""
    x, w_x, w_h, b_x, b_h, states = given = [tensor.clone().requires_grad_() for tensor in given]
    weights = Weights(w_x, w_h, b_x, b_h, states, torch.tensor(1.0))
    first = path_sum.transition_rows(x[:, 0], states[:1], weights, engine=engine)[:, 0]
    matrices = path_sum.transition_matrices(x[:, 1:], weights, engine=engine)
    distribution = path_sum.state_distribution(first, matrices, lengths, engine=engine)
    weight = torch.randn(distribution.shape, generator=torch.Generator().manual_seed(1)).to(distribution)
    return [distribution, *torch.autograd.grad((distribution * weight).sum(), given)]


@pytest.mark.parametrize(
    ("batch", "time", "d", "k"),
    [
        (8, 300, 256, 10),
        (3, 50, 37, 5),
        (4, 100, 100, 17),
        (2, 20, 64, 32),
        (2, 40, 96, 100),
        (2, 90, 64, 64),
        (1, 70, 33, 128),
        (2, 20, 1024, 3),
        (1, 2, 1, 2),
    ],
)
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "lengths"])
def test_values_and_gradients_are_those_of_float64_and_the_same_twice(
    batch: int, time: int, d: int, k: int, padded: bool
) -> None:
    shapes = [(batch, time, 6), (3 * d, 6), (3 * d, d), (3 * d,), (3 * d,), (k, d)]
    given = [torch.randn(shape, device="cuda", dtype=torch.float64) / shape[-1] ** 0.5 for shape in shapes]
    lengths = torch.randint(1, time + 1, (batch,), device="cuda") if padded else None
    single = [tensor.float() for tensor in given]
    fast, again = (_gradients(single, lengths, "triton") for _ in range(2))
    for found, second, expected in zip(fast, again, _gradients(given, lengths, "reference"), strict=True):
        assert torch.equal(found, second)
        scale = expected.abs().max().item()
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4 * scale)


def test_rounding_does_not_accumulate_over_twenty_thousand_steps() -> None:
    slow = torch.eye(10, dtype=torch.float64, device="cuda") * 6
    matrices = (torch.randn(2, 20_000, 10, 10, dtype=torch.float64, device="cuda") + slow).softmax(-1)
    first = torch.full((2, 10), 0.1, dtype=torch.float64, device="cuda")
    single = path_sum.state_distribution(first.float(), matrices.float(), engine="triton")
    torch.testing.assert_close(single.double(), path_sum.state_distribution(first, matrices), rtol=0, atol=1e-5)


@pytest.mark.parametrize("k", [10, 32, 64, 128])
def test_float32_stays_close_to_float64_over_the_longest_review(k: int) -> None:
    table = (2 * torch.randn(50, k, k, dtype=torch.float64, device="cuda")).softmax(-1)
    places = torch.randint(50, (2, 2955), device="cuda")
    first = torch.full((2, k), 1 / k, dtype=torch.float64, device="cuda")
    weight = torch.randn(2, 2956, k, dtype=torch.float64, device="cuda")
    results = []
    for engine, dtype in (("triton", torch.float32), ("reference", torch.float64)):
        logits = table.log().to(dtype).requires_grad_()
        pi = path_sum.state_distribution(first.to(dtype), logits.softmax(-1), places=places, engine=engine)  # type: ignore[arg-type]
        results.append((pi.double(), torch.autograd.grad((pi * weight.to(dtype)).sum(), logits)[0].double()))
    (found, slope), (expected, true_slope) = results
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(slope, true_slope, rtol=0, atol=1e-4 * true_slope.abs().max().item())


@pytest.mark.parametrize("count", [3, 30, 3000], ids=["few tokens", "more tokens than entries", "many tokens"])
def test_a_table_gives_what_each_token_gives(count: int) -> None:
    tokens = torch.randint(10, (2, count), device="cuda")
    values = torch.randn(10, 4, 4, device="cuda")
    entries, places, used = path_sum.distinct(tokens, 10)
    assert used is not None
    assert used.item() == len(tokens.unique())
    torch.testing.assert_close(path_sum.look_up(values[entries], places), values[tokens])


@pytest.mark.parametrize("k", [10, 64])
def test_tokens_train_as_on_the_reference_in_float64_and_the_same_twice(k: int) -> None:
    tokens, labels = torch.randint(300, (5, 60), device="cuda"), torch.randint(2, (5,), device="cuda")
    lengths = torch.tensor([60, 1, 2, 59, 17], device="cuda")
    model = SequenceClassifier(STTauGRU(16, 32, k, mode="exact"), 2, embedding=nn.Embedding(1000, 16)).cuda()

    def gradients(engine: Engine) -> list[Tensor]:
        with using(engine):
            loss = F.cross_entropy(model(tokens, lengths), labels)
        return [loss.detach(), *torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)]

    once, twice = gradients("triton"), gradients("triton")
    model.double()
    for found, again, expected in zip(once, twice, gradients("reference"), strict=True):
        assert (found is None) == (expected is None)
        if found is not None:
            assert torch.equal(found, again)
            torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4 * expected.abs().max().item())


def test_a_graph_of_kernels_can_be_captured_and_replayed() -> None:
    first, matrices = torch.full((2, 5), 0.2, device="cuda"), torch.randn(2, 99, 5, 5, device="cuda").softmax(-1)
    expected = path_sum.state_distribution(first, matrices)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = path_sum.state_distribution(first, matrices)
    graph.replay()
    assert torch.equal(captured, expected)
