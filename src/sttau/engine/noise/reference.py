"""Counter-based random values in plain PyTorch: the same on every engine, device, batch and worker.

A draw is a pure function of (seed, layer, sequence, sample, step, state). It comes from Philox-4x32-10
(Salmon et al., 2011), the generator behind Triton's ``tl.rand``: a block cipher that turns a 128-bit counter
into 128 random bits under a 64-bit key. The assignment is

    key      = (low, high) words of the seed
    counter  = (layer << 16 | state // 4,  step,  sample,  sequence)
    bits     = word number ``state % 4`` of the result

so nothing depends on the position of a sequence in a batch, on its padding, or on the order of the work.
"""

from __future__ import annotations

import torch
from torch import Tensor

MASK = 0xFFFFFFFF  # of a 32-bit word
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Return the four 32-bit words of Philox-4x32-10.

    Words are held in int64 tensors that broadcast against each other. A product of two 32-bit words wraps in int64,
    but its bit pattern is right, and the cipher uses nothing else.

    Example:
        >>> zero = torch.tensor(0)
        >>> [f"{int(word):08x}" for word in philox((zero, zero, zero, zero), (zero, zero))]
        ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        left, right = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((right >> 32) & MASK) ^ c1 ^ k0,
            right & MASK,
            ((left >> 32) & MASK) ^ c3 ^ k1,
            left & MASK,
        )
        k0, k1 = (k0 + _WEYL[0]) & MASK, (k1 + _WEYL[1]) & MASK
    return c0, c1, c2, c3


def uniform(bits: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Map 32 random bits to a value strictly inside (0, 1), exactly representable in float32.

    The 23 leading bits n give (n + 1/2) / 2²³, so the extremes are 2⁻²⁴ and 1 - 2⁻²⁴.
    """
    return ((bits >> 9).to(dtype) + 0.5) * 2.0**-23
