"""The identity of a sequence, by its content."""

from __future__ import annotations

import torch
from torch import Tensor

from sttau.engine.noise.reference import MASK
from sttau.padding import clear_padding

_STRIDE = 0x9E3779B9  # an odd number: multiples below 2³² are distinct


def fingerprint(inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Identify each sequence of a batch by its content, as a 32-bit integer in an int64 tensor.

    The input is features (batch, time, features) or token ids (batch, time). Steps beyond a sequence's length are
    ignored, so the same sequence has the same fingerprint in any batch, at any position, under any padding. Two
    different sequences share one with probability 2⁻³²; they would then share their noise, which is harmless.

    Example:
        >>> x = torch.tensor([[3, 1, 4], [3, 1, 0]])
        >>> a = fingerprint(x, torch.tensor([2, 2]))
        >>> bool(a[0] == a[1]), bool(a[0] == fingerprint(x)[0])
        (True, False)
    """
    if inputs.is_floating_point():
        bits = (inputs.to(torch.float32) + 0.0).view(torch.int32).to(torch.int64)  # + 0.0 makes -0.0 equal 0.0
    else:
        bits = inputs.to(torch.int64)
    bits = bits.reshape(*inputs.shape[:2], -1)
    _, time, features = bits.shape
    place = torch.arange(1, time * features + 1, device=inputs.device).reshape(time, features)
    mixed = _mix((bits & MASK) ^ _mix(place & MASK))
    if lengths is not None:
        mixed = clear_padding(mixed, lengths)
    return _mix(mixed.sum(dim=(1, 2)) & MASK)


def _mix(word: Tensor) -> Tensor:
    """Spread 32 bits over 32 bits: two rounds of xor-shift and multiply, invertible."""
    for shift, multiplier in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        word = word ^ (word >> shift)
        word = (word * multiplier) & MASK
    return word ^ (word >> 16)


def distinguish(ids: Tensor) -> Tensor:
    """Give equal sequences of a batch identities of their own; the first of them, and all others, keep theirs.

    Example:
        >>> ids = distinguish(torch.tensor([7, 5, 7, 7]))
        >>> ids[:2].tolist(), len(set(ids.tolist()))
        ([7, 5], 4)
    """
    ordered, order = ids.sort(stable=True)
    place = torch.arange(len(ids), device=ids.device)
    begins = torch.where(ordered.diff(prepend=ordered[:1] - 1) != 0, place, 0).cummax(0).values
    repeated = torch.empty_like(ids)
    repeated[order] = place - begins
    return (ids + repeated * _STRIDE) % 2**32
