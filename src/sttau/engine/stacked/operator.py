"""The recurrences of several LSTMs at once: networks of one shape that are trained beside each other.

A small LSTM keeps a GPU busy with starting kernels: every step is a product too small to fill it, and running several
networks on streams of their own does not help, because starting is what takes the time. Here one kernel makes the same
step of all networks:

    g_t = W_x x_t + b + W_h (m ⊙ h_{t-1}),   then the gates of an LSTM, for every network

with weights, sequences and masks m (of variational dropout; none elsewhere) of its own for each. The result is that of
``nn.LSTM``, one after another, after the last step. Products use TF32, or what is as fine, exactly where cuDNN may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sttau.engine.dispatch import interpreted, missing


class Weights(NamedTuple):
    """Of one layer in one direction, as ``nn.LSTM`` has them."""

    input: Tensor  # (4 d, features)
    recurrent: Tensor  # (4 d, d)
    input_bias: Tensor  # (4 d,)
    recurrent_bias: Tensor  # (4 d,)


class Part(NamedTuple):
    """What one network reads, and with what."""

    x: Tensor  # (rows, time, features)
    weights: Weights
    mask: Tensor | None = None  # (rows, d), what h_{t-1} is multiplied with; no gradient goes to it


def run(parts: Sequence[Part], lengths: Sequence[Tensor | None] | None = None) -> Tensor:
    """Run one layer of each network.

    Args:
        parts: one for each network, all of one shape.
        lengths: (rows,) valid steps for each; None for all.

    Returns:
        h after the last valid step, (networks, rows, d).

    Example:
        >>> layers = [torch.nn.LSTM(3, 4, batch_first=True) for _ in range(2)]
        >>> x = torch.randn(2, 5, 7, 3)
        >>> parts = [Part(part, Weights(*layer.parameters())) for part, layer in zip(x, layers)]
        >>> torch.allclose(run(parts)[1], layers[1](x[1])[0][:, -1], atol=1e-6)
        True
    """
    x, weights, masks = zip(*parts, strict=True)
    rows, time, _ = x[0].shape
    stacked = [torch.stack(part) for part in zip(*weights, strict=True)]
    whole = torch.full((rows,), time, device=x[0].device)
    ends = torch.stack([whole if length is None else length.to(whole) for length in lengths or [None] * len(x)])
    output: Tensor = _Stacked.apply(  # type: ignore[no-untyped-call]
        torch.stack([part.transpose(0, 1) for part in x]),
        stacked[0],
        stacked[1],
        stacked[2] + stacked[3],
        _for_all(masks),
        ends,
    )
    return output


def is_fast(x: Tensor) -> bool:
    """Whether there are kernels for networks that read this: on a GPU, in float32.

    Example:
        >>> is_fast(torch.zeros(1, 1, 1))
        False
    """
    return x.is_cuda and _has_kernels(x)


def _has_kernels(x: Tensor) -> bool:
    return x.dtype == torch.float32 and missing("triton") is None


def _for_all(masks: Sequence[Tensor | None]) -> Tensor | None:
    """A mask for every network, where any has one."""
    some = next((mask for mask in masks if mask is not None), None)
    return None if some is None else torch.stack([torch.ones_like(some) if mask is None else mask for mask in masks])


class _Stacked(torch.autograd.Function):
    """All steps as one node of the graph.

    Buffers are (networks, time, rows, ·), so that what is not serial is one product over all steps. Those with an extra
    slot of time hold what was at the start.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, recurrent: Tensor, bias: Tensor, mask: Tensor | None, ends: Tensor
    ) -> Tensor:
        networks, time, rows, features = x.shape
        d = recurrent.shape[2]
        with _as_cudnn():
            if features == 1:
                gates = torch.addcmul(bias[:, None, None], x, weight.mT[:, None])
            else:
                gates = torch.baddbmm(bias[:, None], x.flatten(1, 2), weight.mT).view(networks, time, rows, 4 * d)
        hidden = gates.new_empty(networks, time + 1, rows, d)
        cells = torch.empty_like(hidden)
        hidden[:, 0] = cells[:, 0] = 0
        dropped = hidden
        if mask is not None:
            dropped = torch.empty_like(hidden)
            dropped[:, 0] = 0
        _backend(gates).forward(gates, recurrent, mask, cells, hidden, dropped)
        ctx.save_for_backward(x, weight, recurrent, mask, ends, gates, cells, dropped)
        return hidden.gather(1, ends[:, None, :, None].expand(-1, -1, -1, d)).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, recurrent, mask, ends, gates, cells, dropped = ctx.saved_tensors
        delta = torch.empty_like(gates)
        _backend(gates).backward(gates, recurrent, mask, cells, grad.contiguous(), ends, delta)
        wide, d, features = delta.flatten(1, 2), recurrent.shape[2], x.shape[3]
        ones = x.new_ones(1).expand(*x.shape[:3], 8 - features % 8)  # for the bias; products like round sizes
        with _as_cudnn():
            grads = wide.mT @ torch.cat([dropped[:, :-1], x, ones], -1).flatten(1, 2)
            parts = grads[..., : d + features + 1].split([d, features, 1], -1)
            grad_recurrent, grad_weight, grad_bias = (part.contiguous() for part in parts)
            grad_x = torch.bmm(wide, weight).view_as(x) if ctx.needs_input_grad[0] else None
        return grad_x, grad_weight, grad_recurrent, grad_bias.squeeze(-1), None, None


@contextmanager
def _as_cudnn() -> Iterator[None]:
    """Inside, products may use TF32 where cuDNN's may."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = torch.backends.cudnn.allow_tf32
    try:
        yield
    finally:
        matmul.allow_tf32 = before


def _backend(gates: Tensor) -> Any:
    if _has_kernels(gates) and (gates.is_cuda or interpreted()):
        from sttau.engine import stacked_triton

        return stacked_triton
    return _Plain


class _Plain:
    """The steps on any device and in any number type."""

    @staticmethod
    def forward(
        gates: Tensor, weight: Tensor, mask: Tensor | None, cells: Tensor, hidden: Tensor, dropped: Tensor
    ) -> None:
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

    @staticmethod
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
