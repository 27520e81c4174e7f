"""The LSTM with a masked recurrent state: its engines against the specification, and that against ``nn.LSTM``."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from sttau.engine import Engine, backend, masked, using
from sttau.engine.masked import MaskedWeights, operator, reference

SIZES = [(6, 5, 3, 7), (3, 20, 4, 33), (2, 17, 2, 16), (1, 1, 1, 1)]  # time, rows, features, units


def problem(
    time: int, rows: int, features: int, size: int, dtype: torch.dtype
) -> tuple[Tensor, MaskedWeights, Tensor, Tensor, Tensor]:
    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=dtype).requires_grad_()

    mask = (torch.rand(rows, size) > 0.3).to(dtype) / 0.7
    weights = MaskedWeights(draw(4 * size, features), draw(4 * size, size), draw(4 * size))
    return draw(time, rows, features), weights, mask, draw(rows, size), draw(rows, size)


def results(engine: Engine | None, size: tuple[int, int, int, int], ragged: bool, dtype: torch.dtype) -> list[Tensor]:
    """Output and memory, and the gradients of a sum over both that weights every value differently."""
    torch.manual_seed(1)
    x, weights, mask, hidden, memory = problem(*size, dtype)
    lengths = torch.randint(1, size[0] + 1, (size[1],)) if ragged else None
    with using(engine) if engine else nullcontext():
        output, last = masked.run(x, weights, mask, hidden, memory, lengths)
    total = (output * torch.randn_like(output)).sum() + (last * torch.randn_like(last)).sum()
    return [output, last, *torch.autograd.grad(total, [x, *weights, hidden, memory])]  # type: ignore[arg-type]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ragged", [False, True])
def test_values_and_gradients_are_those_of_the_reference(size: tuple[int, int, int, int], ragged: bool) -> None:
    for got, want in zip(
        results("cpu", size, ragged, torch.float64), results("reference", size, ragged, torch.float64), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ragged", [False, True])
def test_steps_of_pytorch_run_where_kernels_cannot(
    size: tuple[int, int, int, int], ragged: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    backend.warn_once.cache_clear()
    monkeypatch.setattr(backend, "missing", lambda operator, engine: f"no {engine} here")
    for got, want in zip(
        results(None, size, ragged, torch.float64), results("reference", size, ragged, torch.float64), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
    assert caplog.text.count("step by step, not on the kernels of engine 'cpu': no cpu here") == 1


@pytest.mark.parametrize("size", [*SIZES, (2, 30, 4, 70)])
@pytest.mark.parametrize("ragged", [False, True])
def test_the_kernels_are_accurate_in_single_precision(size: tuple[int, int, int, int], ragged: bool) -> None:
    for got, want in zip(
        results("cpu", size, ragged, torch.float32), results("reference", size, ragged, torch.float32), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_a_row_depends_neither_on_other_rows_nor_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weights, mask, hidden, memory = problem(5, 61, 3, 20, torch.float32)
    x, hidden, memory = x.detach(), hidden.detach(), memory.detach()

    def run(rows: slice) -> list[Tensor]:
        given = x[:, rows].clone().requires_grad_()
        output, last = masked.run(given, weights, mask[rows], hidden[rows], memory[rows])
        return [output, last, *torch.autograd.grad(output.sum() + last.sum(), given)]

    whole, few = run(slice(None)), run(slice(20, 27))
    assert torch.equal(few[0], whole[0][:, 20:27])
    assert torch.equal(few[1], whole[1][20:27])
    torch.testing.assert_close(few[2], whole[2][:, 20:27])  # a product of PyTorch's
    monkeypatch.setattr("sttau.engine.simd.threads._SMALL", 0)
    torch.set_num_threads(3)
    try:
        shared = run(slice(None))
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(shared[:2], whole[:2], strict=True))


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU the kernels are compiled: see tests/gpu")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.interpreter
def test_the_triton_kernels_compute_what_the_reference_does(size: tuple[int, int, int, int], ragged: bool) -> None:
    pytest.importorskip("triton")
    for got, want in zip(
        results("triton", size, ragged, torch.float32), results("reference", size, ragged, torch.float32), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("values", [1, 300, 1 << 20], ids=["one step", "some steps", "all steps"])
def test_without_gradients_time_is_processed_in_pieces(
    ragged: bool, values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weights, mask, hidden, memory = problem(7, 5, 3, 4, torch.float64)
    lengths = torch.tensor([7, 1, 3, 4, 6]) if ragged else None
    want = masked.run(x, weights, mask, hidden, memory, lengths)
    monkeypatch.setattr(operator, "_PIECE_VALUES", values)
    with torch.no_grad():
        got = masked.run(x, weights, mask, hidden, memory, lengths)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("ragged", [False, True])
def test_gradients_are_finite_differences(ragged: bool) -> None:
    x, weights, mask, hidden, memory = problem(3, 2, 2, 3, torch.float64)
    lengths = torch.tensor([3, 1]) if ragged else None

    def call(x: Tensor, a: Tensor, b: Tensor, c: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        return masked.run(x, MaskedWeights(a, b, c), mask, hidden, memory, lengths)

    assert torch.autograd.gradcheck(call, (x, *weights, hidden, memory))  # type: ignore[arg-type]


def test_one_result_alone_has_gradients() -> None:
    x, weights, mask, hidden, memory = problem(3, 2, 2, 3, torch.float64)
    for number in (0, 1):
        got = torch.autograd.grad(masked.run(x, weights, mask, hidden, memory)[number].sum(), weights.recurrent)
        want = torch.autograd.grad(reference.run(x, weights, mask, hidden, memory)[number].sum(), weights.recurrent)
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_a_mask_of_ones_leaves_an_ordinary_lstm(engine: Engine) -> None:
    layer, x = nn.LSTM(3, 5, dtype=torch.float64), torch.randn(6, 4, 3, dtype=torch.float64)
    own = dict(layer.named_parameters())
    h, c = torch.randn(2, 1, 4, 5, dtype=torch.float64)
    weights = MaskedWeights(own["weight_ih_l0"], own["weight_hh_l0"], own["bias_ih_l0"] + own["bias_hh_l0"])
    with using(engine):
        output, memory = masked.run(x, weights, torch.ones(4, 5, dtype=torch.float64), h[0], c[0])
    want, (_, last) = layer(x, (h, c))
    torch.testing.assert_close(output, want, rtol=0, atol=1e-12)
    torch.testing.assert_close(memory, last[0], rtol=0, atol=1e-12)


def test_the_mask_applies_only_between_the_state_and_the_recurrent_weights() -> None:
    """Dropping units is the same as setting their columns of W_h to zero; the output is not masked."""
    x, weights, _, hidden, memory = problem(4, 1, 2, 3, torch.float64)
    mask = torch.tensor([[0.0, 2.0, 0.0]], dtype=torch.float64)
    output, last = masked.run(x, weights, mask, hidden, memory)
    scaled = weights._replace(recurrent=weights.recurrent * mask)
    for got, want in zip((output, last), reference.run(x, scaled, torch.ones(1, 3), hidden, memory), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
    assert bool((output != 0).all())


@pytest.mark.parametrize(
    ("engine", "dtype", "size", "message"),
    [
        ("triton", torch.float64, 4, "the triton engine computes in float32, not float64"),
        ("triton", torch.float32, 513, "the triton engine holds layers of up to 512 units, not 513"),
    ],
)
def test_an_engine_that_cannot_run_a_layer_reports_the_reason(
    engine: Engine, dtype: torch.dtype, size: int, message: str
) -> None:
    with using(engine), pytest.raises(ValueError, match=message):
        masked.run(*problem(1, 1, 1, size, dtype))
