"""The recurrence written a second time, and the weights, inputs and noise on which the two are compared."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from sttau.engine import Cell, Mode, Noise, Run, Weights

FEATURES, HIDDEN, STATES = 2, 3, 4
CELL = pytest.mark.parametrize("cell", ["lstm", "gru"])
MODE = pytest.mark.parametrize("mode", ["soft", "hard", "deterministic"])
REVERSE = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
Form = Literal["plain", "lengths"]
FORM = pytest.mark.parametrize("form", ["plain", "lengths"])


def some_weights(
    cell: Cell, *, states: int = STATES, peephole: bool = False, bias: bool = True, tau: float = 0.7
) -> Weights:
    width = (4 if cell == "lstm" else 3) * HIDDEN
    return Weights(
        input=torch.randn(width, FEATURES, dtype=torch.float64),
        recurrent=torch.randn(width, HIDDEN, dtype=torch.float64),
        input_bias=torch.randn(width, dtype=torch.float64) if bias else None,
        recurrent_bias=torch.randn(width, dtype=torch.float64) if bias else None,
        states=torch.randn(states, HIDDEN, dtype=torch.float64),
        temperature=torch.tensor(tau, dtype=torch.float64),
        peephole=torch.randn(3, HIDDEN, dtype=torch.float64) if peephole else None,
    )


def some_inputs(batch: int = 3, time: int = 5) -> Tensor:
    return torch.randn(batch, time, FEATURES, dtype=torch.float64)


def some_start(cell: Cell, rows: int = 3) -> tuple[Tensor, Tensor | None]:
    hidden, memory = torch.randn(2, rows, HIDDEN, dtype=torch.float64)
    return hidden, memory if cell == "lstm" else None


def some_noise(batch: int = 3, samples: int = 1) -> Noise:
    return Noise.of(torch.arange(10, 10 + batch), samples, seed=4)


def written_cell(cell: Cell, x: Tensor, h: Tensor, c: Tensor | None, weights: Weights) -> tuple[Tensor, Tensor | None]:
    """u and c by PyTorch's own cells, or, with peepholes, by the equations of Gers & Schmidhuber."""
    w = weights
    if w.peephole is not None:
        assert c is not None
        gates = x @ w.input.T + h @ w.recurrent.T
        if w.input_bias is not None and w.recurrent_bias is not None:
            gates = gates + w.input_bias + w.recurrent_bias
        d = HIDDEN
        p_i, p_f, p_o = w.peephole
        i, f = torch.sigmoid(gates[:, :d] + p_i * c), torch.sigmoid(gates[:, d : 2 * d] + p_f * c)
        new = f * c + i * torch.tanh(gates[:, 2 * d : 3 * d])
        return torch.sigmoid(gates[:, 3 * d :] + p_o * new) * torch.tanh(new), new
    if cell == "lstm":
        assert c is not None
        return torch.lstm_cell(x, (h, c), w.input, w.recurrent, w.input_bias, w.recurrent_bias)
    return torch.gru_cell(x, h, w.input, w.recurrent, w.input_bias, w.recurrent_bias), None


class StraightThrough(torch.autograd.Function):
    """One-hot of the largest entry of l + γ; its gradient by the formula of the soft α, written out."""

    @staticmethod
    def forward(ctx: Any, perturbed: Tensor, tau: Tensor) -> Tensor:
        scaled = perturbed / tau
        soft = torch.exp(scaled - scaled.logsumexp(-1, keepdim=True))
        ctx.save_for_backward(soft, perturbed, tau)
        return (perturbed == perturbed.amax(-1, keepdim=True)).to(soft.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        soft, perturbed, tau = ctx.saved_tensors
        back = soft * (grads[0] - (soft * grads[0]).sum(-1, keepdim=True))
        return back / tau, -(back * perturbed).sum() / tau**2


def written_run(cell: Cell, x: Tensor, weights: Weights, h: Tensor, c: Tensor | None, noise: Noise, mode: Mode) -> Run:
    """The recurrence for whole sequences, one sample, written out a second time."""
    S, tau = weights.states, weights.temperature
    gumbel = noise.gumbel(0, x.shape[1], len(S), x.dtype)
    outputs, alphas = [], []
    for t in range(x.shape[1]):
        u, c = written_cell(cell, x[:, t], h, c, weights)
        logits = torch.einsum("kd,nd->nk", S, u)
        if mode == "hard":
            alpha: Tensor = StraightThrough.apply(logits + gumbel[:, t], tau)  # type: ignore[no-untyped-call]
        else:
            scores = torch.exp((logits + (gumbel[:, t] if mode == "soft" else 0)) / tau)
            alpha = scores / scores.sum(-1, keepdim=True)
        h = torch.einsum("nk,kd->nd", alpha, S)
        outputs.append(h)
        alphas.append(alpha)
    return Run(torch.stack(outputs, 1), h, c, torch.stack(alphas, 1))


def assert_runs_equal(one: Run, other: Run, tolerance: float = 1e-12) -> None:
    for a, b in zip(one, other, strict=True):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def gradients(result: Run, wanted: list[Tensor]) -> list[Tensor]:
    """Gradients of a loss that weights every value of a result differently."""
    parts = [part for part in result if part is not None]
    loss = sum(
        ((part * torch.linspace(-1, 2, part.numel(), dtype=part.dtype).view_as(part)).sum() for part in parts),
        start=torch.zeros((), dtype=parts[0].dtype),
    )
    return list(torch.autograd.grad(loss, wanted))


def learnable(weights: Weights, *others: Tensor | None) -> list[Tensor]:
    """Every tensor among the weights and the others, with gradients enabled."""
    return [tensor.requires_grad_() for tensor in (*weights, *others) if tensor is not None]


LENGTHS = torch.tensor([5, 1, 3])
