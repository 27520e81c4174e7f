"""An LSTM with a mask on its recurrent state, one for each row, the same at all steps: variational dropout.

No fused library function multiplies h_{t-1} with a mask of its own for each row, so this has its own forward and
backward pass, in place of a graph of small steps:

    g_t = W_x x_t + b + W_h (m ⊙ h_{t-1}),   then the gates of an LSTM

All is time first. The masked input, its projection and the gradients of weights are matrix products over all steps;
only W_h (m ⊙ h_{t-1}) and the gates are serial. They run on a CPU as kernels of Numba (``masked_cpu.py``), on a GPU in
Triton (``masked_triton.py``), where a program owns sixteen rows for the whole length, and where neither can do it as a
few in-place operations a step (``steps``, any device, any number type).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from sttau.engine.dispatch import Engine, forced, interpreted, missing, say_once

_PIECE_NUMBERS = 1 << 21  # of the gates, that a piece of time holds where no gradient is needed
_WIDEST = 512  # units that a program of the Triton engine can own


class MaskedWeights(NamedTuple):
    """Weights of one layer and direction, gates in the order of ``nn.LSTM``."""

    input: Tensor  # (4 d, features)
    recurrent: Tensor  # (4 d, d)
    bias: Tensor | None  # (4 d,), the sum of both of nn.LSTM's


def run(
    x: Tensor, weights: MaskedWeights, mask: Tensor, hidden: Tensor, memory: Tensor, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Run one layer in one direction.

    Args:
        x: (time, rows, features), masked already.
        weights: of the layer.
        mask: (rows, d), what h_{t-1} is multiplied with; no gradient goes to it.
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
    engine, mask = _choose(x, hidden.shape[1]), mask.contiguous()
    with torch.autocast(x.device.type, enabled=False):
        if engine == "reference":
            return reference(x, weights, mask, hidden, memory, lengths)
        given = (x, *weights, hidden, memory)
        if not torch.is_grad_enabled() or not any(tensor is not None and tensor.requires_grad for tensor in given):
            return _without_gradient(engine, x, weights, mask, hidden, memory, lengths)
        result: tuple[Tensor, Tensor] = _Masked.apply(  # type: ignore[no-untyped-call]
            engine, x, *weights, mask, hidden, memory, lengths
        )
        return result


def reference(
    x: Tensor, weights: MaskedWeights, mask: Tensor, hidden: Tensor, memory: Tensor, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The specification, step by step; arguments and results as in :func:`run`."""
    outputs = []
    for t, step in enumerate(x):
        g = F.linear(step, weights.input, weights.bias) + F.linear(mask * hidden, weights.recurrent)
        i, f, n, o = g.chunk(4, dim=-1)
        c = f.sigmoid() * memory + i.sigmoid() * n.tanh()
        h = o.sigmoid() * c.tanh()
        if lengths is None:
            hidden, memory = h, c
            outputs.append(h)
        else:
            valid = (t < lengths)[:, None]
            hidden, memory = torch.where(valid, h, hidden), torch.where(valid, c, memory)
            outputs.append(torch.where(valid, h, 0))
    return torch.stack(outputs), memory


def _choose(x: Tensor, size: int) -> str:
    """The engine asked for, or that of the device; ``steps`` where it cannot run, which is said once."""
    asked = forced()
    wanted = asked or ("triton" if x.is_cuda else "cpu")
    obstacle = None if wanted == "reference" else _obstacle(wanted, x, size)
    if obstacle is None:
        return wanted
    if asked:
        raise ValueError(f"engine={asked!r} cannot run this layer: {obstacle}")
    say_once(f"variational dropout runs step by step, not on the kernels of engine {wanted!r}", obstacle)
    return "steps"


def _obstacle(engine: Engine, x: Tensor, size: int) -> str | None:
    """Why an engine cannot do the work; None where it can."""
    if engine == "cpu":
        if x.device.type != "cpu":
            return f"it is on device {x.device}"
        return "they cannot be traced" if torch.compiler.is_compiling() else missing(engine)
    if x.dtype != torch.float32:
        return f"its kernels are for float32, not {x.dtype}"
    if size > _WIDEST:
        return f"its kernels hold layers of up to {_WIDEST} units, not {size}"
    return missing(engine) or (None if x.is_cuda or interpreted() else "it needs a CUDA device")


def _backend(engine: str) -> Any:
    return Stepwise if engine == "steps" else import_module(f"sttau.engine.masked_{engine}")


def _without_gradient(
    engine: str,
    x: Tensor,
    weights: MaskedWeights,
    mask: Tensor,
    hidden: Tensor,
    memory: Tensor,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The forward pass in pieces of time: nothing but the output is kept for the whole length."""
    (time, rows, _), d = x.shape, hidden.shape[1]
    size = min(time, max(1, _PIECE_NUMBERS // (4 * rows * d)))
    output, last = hidden.new_empty(time, rows, d), memory
    cells, dropped = (hidden.new_empty(size + 1, rows, d) for _ in range(2))
    cells[0] = memory
    torch.mul(hidden, mask, out=dropped[0])
    for begin in range(0, time, size):
        steps = min(size, time - begin)
        gates = F.linear(x[begin : begin + steps], weights.input, weights.bias)
        buffers = output[begin : begin + steps], cells[: steps + 1], dropped[: steps + 1]
        _backend(engine).forward(gates, weights.recurrent, mask, *buffers)
        if lengths is not None:
            ends = cells[(lengths - begin).clamp(0, steps), torch.arange(rows, device=x.device)]
            last = torch.where((lengths > begin)[:, None], ends, last)
        cells[0], dropped[0] = cells[steps], dropped[steps]
    if lengths is None:
        return output, cells[0].clone()
    return output.masked_fill_(_beyond(time, lengths), 0), last


class _Masked(torch.autograd.Function):
    """The recurrence as one node of the graph. Buffers with an extra slot hold what came before the first step."""

    @staticmethod
    def forward(
        ctx: Any,
        engine: str,
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
        _backend(engine).forward(gates, recurrent, mask, output, cells, dropped)
        if lengths is None:
            last = cells[-1].clone()
        else:
            last = cells[lengths, torch.arange(rows, device=x.device)]
            output.masked_fill_(_beyond(time, lengths), 0)
        ctx.engine = engine
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, weight, recurrent, bias, mask, lengths, gates, cells, dropped)
        return output, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor | None, grad_last: Tensor | None) -> tuple[Tensor | None, ...]:
        x, weight, recurrent, bias, mask, lengths, gates, cells, dropped = ctx.saved_tensors
        _, needs_x, needs_weight, needs_recurrent, needs_bias, _, needs_hidden, _, _ = ctx.needs_input_grad
        time, rows, width = gates.shape
        delta = gates.new_empty(time + 1, rows, width)  # gradients of the gates, and none after the last step
        delta[-1] = 0
        carried = (
            torch.zeros_like(mask) if grad_last is None else grad_last.clone(memory_format=torch.contiguous_format)
        )
        if grad_output is not None:
            grad_output = grad_output.contiguous()
        _backend(ctx.engine).backward(gates, cells, recurrent, mask, lengths, grad_output, carried, delta)
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


def _beyond(time: int, lengths: Tensor) -> Tensor:
    return (torch.arange(time, device=lengths.device)[:, None] >= lengths)[:, :, None]


def _tanh_(x: Tensor) -> Tensor:
    """In place, as 2 σ(2x) - 1: PyTorch's sigmoid is several times as fast as its tanh on a CPU."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


class Stepwise:
    """A few in-place operations of PyTorch a step, on any device."""

    @staticmethod
    def forward(gates: Tensor, recurrent: Tensor, mask: Tensor, output: Tensor, cells: Tensor, dropped: Tensor) -> None:
        """Turn the projected input into the gates, in place, and fill the other buffers."""
        d = mask.shape[1]
        weight = recurrent.T
        for t, g in enumerate(gates.unbind()):
            c, h = cells[t + 1], output[t]
            g.addmm_(dropped[t], weight)
            g[:, : 2 * d].sigmoid_()
            _tanh_(g[:, 2 * d : 3 * d])
            g[:, 3 * d :].sigmoid_()
            i, f, n, o = g.chunk(4, dim=1)
            torch.mul(f, cells[t], out=c).addcmul_(i, n)
            _tanh_(h.copy_(c)).mul_(o)
            torch.mul(h, mask, out=dropped[t + 1])

    @staticmethod
    def backward(
        gates: Tensor,
        cells: Tensor,
        recurrent: Tensor,
        mask: Tensor,
        lengths: Tensor | None,
        grad_output: Tensor | None,
        carried: Tensor,
        delta: Tensor,
    ) -> None:
        """Fill ``delta``; ``carried`` is the gradient of c after the last step, and in the end that of c_0.

        All factors that do not depend on the step after are computed for all steps at once.
        """
        time, rows, _ = gates.shape
        d = mask.shape[1]
        i, f, n, o = gates.chunk(4, dim=-1)
        tanh = _tanh_(cells[1:].clone())
        factors = delta[:-1]
        factors[..., :d] = n * i * (1 - i)
        factors[..., d : 2 * d] = cells[:-1] * f * (1 - f)
        factors[..., 2 * d : 3 * d] = i * (1 - n * n)
        factors[..., 3 * d :] = tanh * o * (1 - o)
        through = o * (1 - tanh * tanh)
        if lengths is not None:  # beyond a row's length c is handed on as it is
            beyond = _beyond(time, lengths)
            factors.masked_fill_(beyond, 0)
            through.masked_fill_(beyond, 0)
            f = f.masked_fill(beyond, 1)
        grad = torch.empty_like(mask)
        for t in range(time - 1, -1, -1):
            torch.mm(delta[t + 1], recurrent, out=grad).mul_(mask)
            if grad_output is not None:
                grad += grad_output[t]
            carried.addcmul_(grad, through[t])
            delta[t].view(rows, 4, d)[:, :3] *= carried[:, None]
            delta[t, :, 3 * d :] *= grad
            carried *= f[t]
