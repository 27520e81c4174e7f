"""An LSTM with a mask on its recurrent state, one per row, the same at all steps: variational dropout.

No fused library function multiplies h_{t-1} with a separate mask for each row, so this operator has its own forward and
backward pass, instead of a graph of small steps:

    g_t = W_x x_t + b + W_h (m ⊙ h_{t-1}),   then the gates of an LSTM

Time is the first dimension. The projection of the masked input and the gradients of weights are matrix products over
all steps; only W_h (m ⊙ h_{t-1}) and the gates are serial. They run on a CPU as Numba kernels (``cpu.py``), on a GPU in
Triton (``triton.py``), where a program owns sixteen rows for the whole length, and where neither can run as a few
in-place operations per step (``stepwise.py``).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.engine import backend
from sttau.engine.backend import Choice
from sttau.engine.derivatives import first_order
from sttau.engine.masked import reference, stepwise
from sttau.engine.masked.reference import MaskedWeights

_PIECE_VALUES = 1 << 21  # gate values of a piece of time where no gradient is needed


def run(
    x: Tensor, weights: MaskedWeights, mask: Tensor, hidden: Tensor, memory: Tensor, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Run one layer in one direction.

    Args:
        x: (time, rows, features), masked already.
        weights: Weights of the layer.
        mask: (rows, d), factor of h_{t-1}; it receives no gradient.
        hidden: (rows, d), h_0.
        memory: (rows, d), c_0.
        lengths: (rows,) valid steps.

    Returns:
        h_t, (time, rows, d), zero beyond a row's length; and c after its last valid step, (rows, d).

    Example:
        >>> weights = MaskedWeights(torch.randn(16, 3), torch.randn(16, 4), None)
        >>> zeros = torch.zeros(2, 4)
        >>> output, memory = run(torch.randn(5, 2, 3), weights, torch.ones(2, 4), zeros, zeros)
        >>> output.shape, memory.shape
        (torch.Size([5, 2, 4]), torch.Size([2, 4]))
    """
    engine, mask = _choose(x, weights), mask.contiguous()
    with backend.full_precision(x.device):
        if engine == "reference":
            return reference.run(x, weights, mask, hidden, memory, lengths)
        given = (x, *weights, hidden, memory)
        if not torch.is_grad_enabled() or not any(tensor is not None and tensor.requires_grad for tensor in given):
            return _without_gradient(engine, x, weights, mask, hidden, memory, lengths)
        result: tuple[Tensor, Tensor] = _Masked.apply(  # type: ignore[no-untyped-call]
            engine, x, *weights, mask, hidden, memory, lengths
        )
        return result


def _choose(x: Tensor, weights: MaskedWeights) -> Choice:
    if backend.is_transformed(x.device):
        return "reference"
    size, traced = weights.recurrent.shape[1], torch.compiler.is_compiling()
    chosen = backend.choose("masked", x.device, x.dtype, size=size, traced=traced)
    return "reference" if traced and chosen == "stepwise" else chosen  # in-place operations on views have no graph


def _kernels(engine: Choice) -> Any:
    return backend.kernels("masked", engine) if engine in ("cpu", "triton") else stepwise


def _without_gradient(
    engine: Choice,
    x: Tensor,
    weights: MaskedWeights,
    mask: Tensor,
    hidden: Tensor,
    memory: Tensor,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The forward pass in pieces of time: only the output exists for the whole length."""
    (time, rows, _), d = x.shape, hidden.shape[1]
    size = min(time, max(1, _PIECE_VALUES // (4 * rows * d)))
    output, last = hidden.new_empty(time, rows, d), memory
    cells, dropped = (hidden.new_empty(size + 1, rows, d) for _ in range(2))
    cells[0] = memory
    torch.mul(hidden, mask, out=dropped[0])
    for begin in range(0, time, size):
        steps = min(size, time - begin)
        gates = F.linear(x[begin : begin + steps], weights.input, weights.bias)
        buffers = output[begin : begin + steps], cells[: steps + 1], dropped[: steps + 1]
        _kernels(engine).forward(gates, weights.recurrent, mask, *buffers)
        if lengths is not None:
            ends = cells[(lengths - begin).clamp(0, steps), torch.arange(rows, device=x.device)]
            last = torch.where((lengths > begin)[:, None], ends, last)
        cells[0], dropped[0] = cells[steps], dropped[steps]
    if lengths is None:
        return output, cells[0].clone()
    return output.masked_fill_(stepwise.beyond_length(time, lengths), 0), last


class _Masked(torch.autograd.Function):
    """The recurrence as one node of the graph. Buffers with an extra step hold the initial value."""

    @staticmethod
    def forward(
        ctx: Any,
        engine: Choice,
        x: Tensor,
        weight: Tensor,
        recurrent: Tensor,
        bias: Tensor | None,
        mask: Tensor,
        hidden: Tensor,
        memory: Tensor,
        lengths: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        time, rows, _ = x.shape
        gates = F.linear(x, weight, bias)
        output = hidden.new_empty(time, rows, hidden.shape[1])
        cells, dropped = (output.new_empty(time + 1, *output.shape[1:]) for _ in range(2))
        cells[0] = memory
        torch.mul(hidden, mask, out=dropped[0])
        _kernels(engine).forward(gates, recurrent, mask, output, cells, dropped)
        if lengths is None:
            last = cells[-1].clone()
        else:
            last = cells[lengths, torch.arange(rows, device=x.device)]
            output.masked_fill_(stepwise.beyond_length(time, lengths), 0)
        ctx.engine = engine
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, weight, recurrent, bias, mask, lengths, gates, cells, dropped)
        return output, last

    @staticmethod
    @first_order
    def backward(ctx: Any, grad_output: Tensor | None, grad_last: Tensor | None) -> tuple[Tensor | None, ...]:
        x, weight, recurrent, bias, mask, lengths, gates, cells, dropped = ctx.saved_tensors
        _, needs_x, needs_weight, needs_recurrent, needs_bias, _, needs_hidden, _, _ = ctx.needs_input_grad
        time, rows, width = gates.shape
        delta = gates.new_empty(time + 1, rows, width)  # gradients of the gates, zero after the last step
        delta[-1] = 0
        carried = (
            torch.zeros_like(mask) if grad_last is None else grad_last.clone(memory_format=torch.contiguous_format)
        )
        if grad_output is not None:
            grad_output = grad_output.contiguous()
        _kernels(ctx.engine).backward(gates, cells, recurrent, mask, lengths, grad_output, carried, delta)
        flat = delta[:-1].view(-1, width)
        return (
            None,
            (flat @ weight).view_as(x) if needs_x else None,
            flat.T @ x.reshape(len(flat), -1) if needs_weight else None,
            flat.T @ dropped[:-1].view(len(flat), -1) if needs_recurrent else None,
            flat.sum(0) if needs_bias and bias is not None else None,
            None,
            mask * (delta[0] @ recurrent) if needs_hidden else None,
            carried,
            None,
        )
