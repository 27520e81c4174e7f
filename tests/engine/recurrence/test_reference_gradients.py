"""Gradients and range of the reference, against finite differences and written formulas."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sttau.engine import Cell, Mode, Noise, Weights
from sttau.engine.recurrence import reference
from sttau.engine.recurrence.reference import run
from tests.engine.recurrence.written import (
    CELL,
    FORM,
    LENGTHS,
    MODE,
    REVERSE,
    Form,
    assert_runs_equal,
    gradients,
    learnable,
    some_inputs,
    some_noise,
    some_start,
    some_weights,
    written_run,
)


def converted(tensors: Any, dtype: torch.dtype) -> Any:
    """A tuple, named or not, with its tensors in another dtype."""
    changed = [None if tensor is None else tensor.detach().to(dtype) for tensor in tensors]
    return type(tensors)(*changed) if hasattr(tensors, "_fields") else changed


# -- gradients -----------------------------------------------------------------------------------------------


@CELL
@pytest.mark.parametrize("mode", ["soft", "deterministic"])
@FORM
@REVERSE
@pytest.mark.parametrize("readout", ["state", "cell"])
@pytest.mark.slow
def test_gradients_of_every_tensor_are_those_of_finite_differences(
    cell: Cell, mode: Mode, form: Form, reverse: bool, readout: reference.Readout
) -> None:
    weights = some_weights(cell, states=3, peephole=cell == "lstm")
    x, (h, c) = some_inputs(batch=2, time=3), some_start(cell, rows=2)
    lengths = torch.tensor([3, 2]) if form == "lengths" else None
    present = [name for name, tensor in zip(Weights._fields, weights, strict=True) if tensor is not None]

    def results(*tensors: Tensor) -> list[Tensor]:
        given_weights = weights._replace(**dict(zip(present, tensors, strict=False)))
        inputs, hidden, *memory = tensors[len(present) :]
        result = run(
            cell, inputs, given_weights, hidden, memory[0] if memory else None, noise=some_noise(batch=2),
            mode=mode, lengths=lengths, reverse=reverse, readout=readout,
        )  # fmt: skip
        return [part for part in result if part is not None]

    assert torch.autograd.gradcheck(results, learnable(weights, x, h, c))


@CELL
@pytest.mark.parametrize("peephole", [False, True])
def test_straight_through_gradients_are_those_of_the_written_formula(cell: Cell, peephole: bool) -> None:
    weights = some_weights(cell, peephole=peephole and cell == "lstm")
    x, (h, c) = some_inputs(), some_start(cell)
    wanted = learnable(weights, x, h, c)
    ours = run(cell, x, weights, h, c, noise=some_noise(), mode="hard")
    theirs = written_run(cell, x, weights, h, c, some_noise(), "hard")
    assert_runs_equal(ours, theirs)
    for one, other in zip(gradients(ours, wanted), gradients(theirs, wanted), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
        assert one.any()


@CELL
def test_straight_through_has_the_gradient_of_soft_at_one_step(cell: Cell) -> None:
    """S is left out: h = Sᵀα, so its gradient holds α itself, hard in the one and soft in the other."""
    weights, x, (h, c) = some_weights(cell), some_inputs(time=1), some_start(cell)
    learnable(weights, x, h, c)
    wanted = [tensor for tensor in (*weights, x, h, c) if tensor is not None and tensor is not weights.states]
    hard, soft = (
        gradients(run(cell, x, weights, h, c, noise=some_noise(), mode=mode), wanted) for mode in ("hard", "soft")
    )
    for one, other in zip(hard, soft, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)


@CELL
def test_several_samples_add_their_gradients(cell: Cell) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell, rows=6)
    wanted = learnable(weights, x)

    def slopes(rows: slice, noise: Noise) -> list[Tensor]:
        memory = None if c is None else c[rows]
        output = run(cell, x, weights, h[rows], memory, noise=noise, lengths=LENGTHS).output
        return list(torch.autograd.grad(output.pow(2).sum(), wanted))

    together = slopes(slice(0, 6), some_noise(samples=2))
    apart = [slopes(slice(3 * s, 3 * s + 3), Noise.of(torch.arange(10, 13), 1, 4, s)) for s in range(2)]
    for whole, first, second in zip(together, *apart, strict=True):
        torch.testing.assert_close(whole, first + second, rtol=1e-12, atol=1e-12)


# -- numerical range -----------------------------------------------------------------------------------------


@CELL
@MODE
def test_bfloat16_is_only_storage(cell: Cell, mode: Mode) -> None:
    """Input and output are rounded; the recurrence between is that of float32, bit by bit."""
    weights, x, (h, c) = some_weights(cell), some_inputs(time=30), some_start(cell)
    weights, (x, h, c) = converted(weights, torch.bfloat16), converted((x, h, c), torch.bfloat16)
    stored = run(cell, x, weights, h, c, noise=some_noise(), mode=mode)
    weights, (x, h, c) = converted(weights, torch.float32), converted((x, h, c), torch.float32)
    exact = run(cell, x, weights, h, c, noise=some_noise(), mode=mode)
    for a, b in zip(stored, exact, strict=True):
        if b is not None:
            assert a is not None
            assert a.dtype == torch.bfloat16
            assert torch.equal(a, b.bfloat16())


@CELL
@MODE
def test_float32_follows_float64(cell: Cell, mode: Mode) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(time=10), some_start(cell)
    double = run(cell, x, weights, h, c, noise=some_noise(), mode=mode)
    x, h, c = converted((x, h, c), torch.float32)
    single = run(cell, x, weights, h, c, noise=some_noise(), mode=mode)
    assert single.output.dtype == torch.float32
    assert_runs_equal(converted(single, torch.float64), double, 1e-4)


@CELL
@MODE
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_sequences_with_huge_logits_and_tiny_tau_stay_finite(cell: Cell, mode: Mode, dtype: torch.dtype) -> None:
    weights = some_weights(cell, tau=1e-3)
    weights = weights._replace(states=3e4 * weights.states)
    x, (h, c) = some_inputs(batch=2, time=300), some_start(cell, rows=2)
    weights, (x, h, c) = converted(weights, dtype), converted((x, h, c), dtype)
    wanted = learnable(weights, x, h, c)
    result = run(cell, x, weights, h, c, noise=some_noise(batch=2), mode=mode, readout="cell")
    logits = result.output @ weights.states.T
    assert logits.max() > 1e4
    assert logits.min() < -1e4
    assert all(part.isfinite().all() for part in result if part is not None)
    torch.testing.assert_close(result.transitions.sum(-1), torch.ones(2, 300, dtype=dtype))
    assert all(slope.isfinite().all() for slope in gradients(result, wanted))
