"""The serial part of stacked LSTMs in plain PyTorch, on any device and in any dtype: the reference for the kernels."""

from __future__ import annotations

import torch
from torch import Tensor


def forward(gates: Tensor, weight: Tensor, mask: Tensor | None, cells: Tensor, hidden: Tensor, dropped: Tensor) -> None:
    """Turn the projected input into the gates, in place, and fill the other buffers."""
    for t, gate in enumerate(gates.unbind(1)):
        i, f, n, o = gate.copy_(torch.baddbmm(gate, dropped[:, t], weight.mT)).chunk(4, dim=-1)
        for part in (i, f, o):
            part.sigmoid_()
        n.tanh_()
        cells[:, t + 1] = f * cells[:, t] + i * n
        hidden[:, t + 1] = o * cells[:, t + 1].tanh()
        if mask is not None:
            dropped[:, t + 1] = hidden[:, t + 1] * mask


def backward(
    gates: Tensor, weight: Tensor, mask: Tensor | None, cells: Tensor, grad: Tensor, ends: Tensor, delta: Tensor
) -> None:
    """Fill ``delta``, the gradient of the projected input, from ``grad``, that of h at the ends."""
    carried, time = torch.zeros_like(cells[:, 0]), gates.shape[1]  # the gradient of c
    for t in range(time - 1, -1, -1):
        i, f, n, o = gates[:, t].chunk(4, dim=-1)
        tanh, dh = cells[:, t + 1].tanh(), torch.where((ends == t + 1)[..., None], grad, 0)
        if t + 1 < time:
            through = torch.bmm(delta[:, t + 1], weight)
            dh = dh + (through if mask is None else through * mask)
        carried.addcmul_(dh, o * (1 - tanh * tanh))
        di, df, dn, do = delta[:, t].chunk(4, dim=-1)
        di.copy_(carried * n * i * (1 - i))
        df.copy_(carried * cells[:, t] * f * (1 - f))
        dn.copy_(carried * i * (1 - n * n))
        do.copy_(dh * tanh * o * (1 - o))
        carried.mul_(f)
