"""The recurrences of several LSTMs of one shape at once, for networks that are trained together.

A small LSTM is bound by kernel launches: every step is a product too small to fill a GPU, and running several networks
on separate streams does not help, because launching takes the time. Here one kernel computes the same step of all
networks:

    g_t = W_x x_t + b + W_h (m ⊙ h_{t-1}),   then the gates of an LSTM, for every network

with separate weights, sequences and masks m (of variational dropout; otherwise none). The result is that of
``nn.LSTM`` for each network, after the last step. Products use TF32, or an equally accurate format, exactly where cuDNN
may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sttau.engine import backend
from sttau.engine.stacked import reference


class Weights(NamedTuple):
    """The weights of one layer in one direction, as in ``nn.LSTM``."""

    input: Tensor  # (4 d, features)
    recurrent: Tensor  # (4 d, d)
    input_bias: Tensor  # (4 d,)
    recurrent_bias: Tensor  # (4 d,)


class Part(NamedTuple):
    """The input and the weights of one network."""

    x: Tensor  # (rows, time, features)
    weights: Weights
    mask: Tensor | None = None  # (rows, d), factor of h_{t-1}; it receives no gradient


def run(parts: Sequence[Part], lengths: Sequence[Tensor | None] | None = None) -> Tensor:
    """Run one layer of each network.

    Args:
        parts: Inputs and weights of each network, all of one shape.
        lengths: (rows,) valid steps for each network; None where all steps are valid.

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
    """Whether there are kernels for networks with this input: on a GPU, in float32.

    Example:
        >>> is_fast(torch.zeros(1, 1, 1))
        False
    """
    return x.is_cuda and backend.choose("stacked", x.device, x.dtype) == "triton"


def _for_all(masks: Sequence[Tensor | None]) -> Tensor | None:
    """Masks of all networks, if any network has one."""
    some = next((mask for mask in masks if mask is not None), None)
    return None if some is None else torch.stack([torch.ones_like(some) if mask is None else mask for mask in masks])


class _Stacked(torch.autograd.Function):
    """All steps as one node of the graph.

    Buffers are (networks, time, rows, ·), so that what is not serial is one product over all steps. Those with an extra
    step hold the initial value.
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
        _kernels(gates).forward(gates, recurrent, mask, cells, hidden, dropped)
        ctx.save_for_backward(x, weight, recurrent, mask, ends, gates, cells, dropped)
        return hidden.gather(1, ends[:, None, :, None].expand(-1, -1, -1, d)).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, recurrent, mask, ends, gates, cells, dropped = ctx.saved_tensors
        delta = torch.empty_like(gates)
        _kernels(gates).backward(gates, recurrent, mask, cells, grad.contiguous(), ends, delta)
        wide, d, features = delta.flatten(1, 2), recurrent.shape[2], x.shape[3]
        ones = x.new_ones(1).expand(*x.shape[:3], 8 - features % 8)  # for the bias; sizes are multiples of 8
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


def _kernels(gates: Tensor) -> Any:
    engine = backend.choose("stacked", gates.device, gates.dtype)
    return backend.kernels("stacked", engine) if engine == "triton" else reference
