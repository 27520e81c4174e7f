"""The serial part of the masked LSTM: a few in-place operations of PyTorch per step, on any device and in any dtype."""

from __future__ import annotations

import torch
from torch import Tensor


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
    """Fill ``delta``; ``carried`` is the gradient of c after the last step, and on return that of c_0.

    All factors that do not depend on the next step are computed for all steps at once.
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
    if lengths is not None:  # beyond a row's length c is passed on unchanged
        beyond = beyond_length(time, lengths)
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


def beyond_length(time: int, lengths: Tensor) -> Tensor:
    """Which steps, (time, rows, 1), are beyond a row's length."""
    return (torch.arange(time, device=lengths.device)[:, None] >= lengths)[:, :, None]


def _tanh_(x: Tensor) -> Tensor:
    """In place, as 2 σ(2x) - 1: on a CPU PyTorch's sigmoid is several times as fast as its tanh."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)
