"""The path sum's Triton kernels, here run by Triton's interpreter, give the reference's values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from sttau.engine import Engine, Weights, backend, path_sum
from sttau.engine.path_sum import reference

triton_rows = pytest.importorskip("sttau.engine.path_sum.triton_rows", reason="needs Triton")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU the kernels are compiled: see tests/gpu")


def disagreement(function: Callable[..., Tensor], given: Sequence[Tensor]) -> float:
    """Largest error of the value and of each gradient, relative to the largest value in it; the oracle is float64."""
    results = []
    for engine, dtype in (("triton", torch.float32), ("reference", torch.float64)):
        tensors = [tensor.to(dtype).requires_grad_() for tensor in given]
        value = function(*tensors, engine=engine)
        weight = torch.randn(value.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        results.append([value, *torch.autograd.grad((value * weight).sum(), tensors)])
    errors = [(a - b).abs().max() / b.abs().max().clamp_min(1e-6) for a, b in zip(*results, strict=True)]
    return torch.stack(errors).max().item()


def transitions(count: int, k: int, d: int, features: int, *, bias: bool = True, own: bool = False) -> float:
    """Disagreement on the transition matrices or, with ``own``, on rows from a hidden state that is not among them."""
    shapes = [(count, features), (3 * d, features), (3 * d, d), (k, d), (1, d), (3 * d,), (3 * d,)]
    given = [torch.randn(shape, dtype=torch.float64) / shape[-1] ** 0.25 for shape in shapes]

    def rows(x: Tensor, w_x: Tensor, w_h: Tensor, S: Tensor, *others: Tensor, engine: Engine) -> Tensor:
        b_x, b_h = others[-2:] if bias else (None, None)
        return path_sum.transition_rows(
            x, others[0] if own else S, Weights(w_x, w_h, b_x, b_h, S, torch.tensor(1.0)), engine=engine
        )

    return disagreement(rows, given[:4] + (given[4:5] if own else []) + (given[5:] if bias else []))


@pytest.mark.parametrize(
    ("count", "k", "d", "features"),  # a tile is 64 or 16 inputs, and 32 or 64 columns
    [(1, 2, 1, 1), (5, 3, 7, 2), (64, 5, 32, 3), (70, 10, 33, 4), (17, 17, 65, 2)],
)
def test_transition_matrices_and_gradients_are_those_of_the_reference(
    count: int, k: int, d: int, features: int
) -> None:
    assert transitions(count, k, d, features) < 1e-5


@pytest.mark.parametrize("own", [False, True], ids=["states", "other hidden state"])
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
def test_processing_the_inputs_in_pieces_changes_nothing(
    own: bool, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_rows, "_PIECE_VALUES", 1)
    assert transitions(35, 3, 5, 2, own=own, bias=bias) < 1e-5


@pytest.mark.parametrize(
    ("batch", "time", "k", "lengths"),  # a block is 16 steps; more than 32 states are not cut into blocks
    [
        (2, 2, 2, None),
        (1, 17, 17, None),
        (2, 35, 3, None),
        (4, 40, 10, [40, 1, 17, 18]),
        (2, 34, 5, [1, 2]),
        (3, 20, 33, [20, 1, 7]),
        (1, 4, 128, None),
    ],
)
def test_the_distribution_of_the_state_and_gradients_are_those_of_the_reference(
    batch: int, time: int, k: int, lengths: list[int] | None
) -> None:
    valid = None if lengths is None else torch.tensor(lengths)
    matrices = (3 * torch.randn(batch, time - 1, k, k)).softmax(-1)

    def distribution(first: Tensor, matrices: Tensor, *, engine: Engine) -> Tensor:
        return path_sum.state_distribution(first, matrices, valid, engine=engine)

    assert time <= reference._SERIAL  # there the reference normalizes too: gradients of A are the same
    assert disagreement(distribution, [torch.randn(batch, k).softmax(-1), matrices]) < 1e-5


@pytest.mark.parametrize(
    ("k", "count", "lengths"),
    [(3, 4, None), (17, 50, [40, 1, 18]), (40, 7, [2, 40, 33])],
    ids=["few matrices", "unused matrices", "many states"],
)
def test_a_matrix_is_read_where_it_is_used_and_its_gradient_is_summed_there(
    k: int, count: int, lengths: list[int] | None
) -> None:
    valid = None if lengths is None else torch.tensor(lengths)
    places = torch.randint(count - 1, (3, 39))  # the last is not used
    places[0] = 0  # more steps than are added at once

    def distribution(first: Tensor, matrices: Tensor, *, engine: Engine) -> Tensor:
        return path_sum.state_distribution(first, matrices, valid, places=places, engine=engine)

    given = [torch.randn(3, k).softmax(-1), (3 * torch.randn(count, k, k)).softmax(-1)]
    assert disagreement(distribution, given) < 1e-5


@pytest.mark.parametrize("pieces", [1, 1 << 24])
@pytest.mark.parametrize("used", [0, 1, 30, 64, 70])
def test_inputs_that_are_not_used_are_left_out_and_have_no_gradient(
    used: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_rows, "_PIECE_VALUES", pieces)
    x = torch.randn(70, 2, dtype=torch.float64)

    def matrices(w_x: Tensor, w_h: Tensor, S: Tensor, x: Tensor, *, engine: Engine) -> Tensor:
        weights = Weights(w_x, w_h, None, None, S, torch.tensor(1.0))
        rows = path_sum.transition_matrices(x, weights, used=torch.tensor([used]), engine=engine)
        beyond = torch.arange(len(x))[:, None, None] >= used
        return rows.masked_fill(beyond, 0)  # undefined, and not read

    given = [torch.randn(shape, dtype=torch.float64) for shape in ((15, 2), (15, 5), (3, 5))]
    assert disagreement(matrices, [*given, x]) < 1e-5


@pytest.mark.filterwarnings("ignore:overflow")  # NumPy's, in the interpreter: e^x = ∞ is the gate that is shut
def test_scores_of_ten_thousand_give_no_nan() -> None:
    given = [torch.randn(shape) * 1e3 for shape in ((9, 2), (9, 3), (9,), (9,), (4, 3))]
    w_x, w_h, b_x, b_h, S = given = [tensor.requires_grad_() for tensor in given]
    weights = Weights(w_x, w_h, b_x, b_h, S, torch.tensor(1.0))
    matrices = path_sum.transition_matrices(torch.randn(20, 2), weights, engine="triton")
    assert all(tensor.isfinite().all() for tensor in (matrices, *torch.autograd.grad(matrices.square().sum(), given)))


@pytest.mark.parametrize("name", ["transition_rows", "state_distribution"])
def test_the_operators_keep_the_contract_of_torch_library(name: str) -> None:
    if name == "transition_rows":
        given = [*(torch.randn(shape) for shape in ((5, 2), (9, 2), (9,), (2, 9), (2, 3), (4, 3))), None]
    else:
        given = [torch.randn(2, 3).softmax(-1), torch.randn(2, 20, 3, 3).softmax(-1), torch.tensor([21, 4]), None]
    learnable = tuple(None if tensor is None else tensor.requires_grad_(tensor.is_floating_point()) for tensor in given)
    torch.library.opcheck(getattr(torch.ops.sttau, name).default, learnable)


def test_on_a_cpu_its_kernels_are_the_default_and_impossible_requests_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    first, matrices = torch.full((1, 129), 1 / 129), torch.full((1, 3, 129, 129), 1 / 129)
    default = path_sum.state_distribution(first, matrices)
    assert torch.equal(default, path_sum.state_distribution(first, matrices, engine="cpu"))
    with pytest.raises(ValueError, match="engine must be one of 'reference', 'cpu', 'triton', got 'gpu'"):
        path_sum.state_distribution(first, matrices, engine="gpu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="up to 128 states, not 129"):
        path_sum.state_distribution(first, matrices, engine="triton")
    first, matrices = torch.full((1, 2), 0.5), torch.full((1, 3, 2, 2), 0.5)
    with pytest.raises(ValueError, match="float32, not float64"):
        path_sum.state_distribution(first.double(), matrices.double(), engine="triton")
    monkeypatch.setattr(backend, "interpreted", lambda: False)
    with pytest.raises(ValueError, match="needs a CUDA device, not 'cpu'"):
        path_sum.state_distribution(first, matrices, engine="triton")
