"""Counter-based Gumbel noise: the same numbers on every engine, device, batch and worker.

A draw is a pure function of (seed, layer, sequence, sample, step, state). It comes from Philox-4x32-10
(Salmon et al., 2011), the generator behind Triton's ``tl.rand``: a block cipher that turns a 128-bit counter
into 128 random bits under a 64-bit key. The assignment is

    key      = (low, high) words of the seed
    counter  = (layer << 16 | state // 4,  step,  sample,  sequence)
    bits     = word number ``state % 4`` of the result

so nothing depends on where a sequence stands in a batch, how far it is padded, or in what order work is done.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sttau.engine.constants import kept
from sttau.padding import clear_padding

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Return the four 32-bit words of Philox-4x32-10.

    Words travel in int64 tensors that broadcast against each other. A product of two 32-bit words wraps in int64,
    but its bit pattern is right, and that is all the cipher uses.

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
            ((right >> 32) & _MASK) ^ c1 ^ k0,
            right & _MASK,
            ((left >> 32) & _MASK) ^ c3 ^ k1,
            left & _MASK,
        )
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def uniform(bits: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Map 32 random bits to a number strictly inside (0, 1), exactly representable in float32.

    The 23 leading bits n give (n + 1/2) / 2²³, so the extremes are 2⁻²⁴ and 1 - 2⁻²⁴.
    """
    return ((bits >> 9).to(dtype) + 0.5) * 2.0**-23


@dataclass(frozen=True)
class Noise:
    """Names the random draws of a batch: one sequence and one sample number for every row.

    Attributes:
        seed: int64 scalar tensor.
        sequence: (rows,) int64, the identity of the row's sequence; only the low 32 bits count.
        sample: (rows,) int64, the number of the Monte-Carlo run.
        first_step: time of the first step, for a sequence that is read in pieces.
        layer: number of the layer and direction, so that stacked layers draw apart.
    """

    seed: Tensor
    sequence: Tensor
    sample: Tensor
    first_step: int = 0
    layer: int = 0

    @classmethod
    def of(cls, sequence: Tensor, samples: int = 1, seed: int = 0, first_sample: int = 0) -> Noise:
        """Noise for ``samples`` runs over the given sequences; rows are ordered run by run.

        Example:
            >>> noise = Noise.of(torch.tensor([7, 8]), samples=2, seed=3)
            >>> noise.sequence.tolist(), noise.sample.tolist()
            ([7, 8, 7, 8], [0, 0, 1, 1])
        """
        number = torch.arange(first_sample, first_sample + samples, device=sequence.device)
        return cls(
            seed=torch.tensor(seed, dtype=torch.int64, device=sequence.device),
            sequence=sequence.repeat(samples),
            sample=number.repeat_interleave(len(sequence)),
        )

    @classmethod
    def fresh(cls, batch: int, device: torch.device) -> Noise:
        """Noise under a seed drawn from PyTorch's generator of the device, as ``torch.nn.Dropout`` would."""
        seed = torch.randint(2**62, (), dtype=torch.int64, device=device)
        sequence, sample = _first_samples(batch, device)
        return cls(seed=seed, sequence=sequence, sample=sample)

    def for_layer(self, layer: int) -> Noise:
        """Return the same rows seen by another layer or direction."""
        return replace(self, layer=layer)

    def gumbel(self, start: int, steps: int, states: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Gumbel(0, 1) draws γ for ``steps`` steps from ``start``, of shape (rows, steps, states).

        Example:
            >>> noise = Noise.of(torch.arange(3), seed=1)
            >>> whole = noise.gumbel(0, 5, 7)
            >>> bool((noise.gumbel(2, 3, 7) == whole[:, 2:]).all())
            True
        """
        fine = torch.promote_types(dtype, torch.float32)  # half precision would round u up to 1 and γ to infinity
        return (-(-self.uniform(start, steps, states, fine).log()).log()).to(dtype)

    def uniform(self, start: int, steps: int, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Draws strictly inside (0, 1) for ``steps`` steps from ``start``, of shape (rows, steps, size).

        Example:
            >>> Noise.of(torch.arange(3), seed=1).uniform(0, 5, 7).shape
            torch.Size([3, 5, 7])
        """
        first, device = self.first_step + start, self.sequence.device
        if _is_one_kernel(dtype, self.seed, self.sample, self.sequence):
            from sttau.engine import noise_triton

            drawn = noise_triton.uniform(self.seed, self.sample, self.sequence, self.layer << 16, first, steps, size)
            return drawn.to(dtype)
        block = torch.arange((size + 3) // 4, device=device)
        step = torch.arange(first, first + steps, device=device)
        counter = (
            ((self.layer << 16) | block)[None, None, :],
            step[None, :, None] & _MASK,
            self.sample[:, None, None] & _MASK,
            self.sequence[:, None, None] & _MASK,
        )
        words = torch.broadcast_tensors(*philox(counter, self._key()))
        return uniform(torch.stack(words, dim=-1).flatten(-2)[..., :size], dtype)

    def normal(self, row: int, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal draws, (size,), for the run that ``row`` belongs to: the same for all its sequences.

        The counter is (number // 4, layer, sample, 2³² - 1), and each pair of words gives a pair of numbers by the
        method of Box and Muller.

        Example:
            >>> noise = Noise.of(torch.tensor([7, 8]), samples=2)
            >>> first, other, second = (noise.normal(row, 5) for row in (0, 1, 2))
            >>> bool((first == other).all()), bool((first == second).any())
            (True, False)
        """
        fine = torch.promote_types(dtype, torch.float32)
        pairs = self._uniform_of_run(row, (size + 3) // 4, fine).unflatten(-1, (2, 2))
        radius, turn = (-2 * pairs[..., 0].log()).sqrt(), 2 * math.pi * pairs[..., 1]
        return torch.stack([radius * turn.cos(), radius * turn.sin()], dim=-1).flatten()[:size].to(dtype)

    def _uniform_of_run(self, row: int, blocks: int, dtype: torch.dtype) -> Tensor:
        """Draws for the run that ``row`` belongs to, (blocks, 4)."""
        sample = self.sample[row : row + 1]
        if _is_one_kernel(dtype, self.seed, sample):
            from sttau.engine import noise_triton

            return noise_triton.uniform(self.seed, sample, None, 0, self.layer, 1, 4 * blocks).view(-1, 4).to(dtype)
        block = torch.arange(blocks, device=sample.device)
        layer = torch.full((), self.layer, dtype=torch.int64, device=block.device)
        words = philox((block, layer, sample[0] & _MASK, torch.full_like(layer, _MASK)), self._key())
        return uniform(torch.stack(words, dim=-1), dtype)

    def _key(self) -> tuple[Tensor, Tensor]:
        return self.seed & _MASK, (self.seed >> 32) & _MASK


def _is_one_kernel(dtype: torch.dtype, *names: Tensor) -> bool:
    """Whether draws are made in Triton: on a GPU, where PyTorch's operations would be too many to start."""
    if not all(name.is_cuda for name in names) or torch.compiler.is_compiling():
        return False
    from sttau.engine.dispatch import missing

    return dtype in (torch.float32, torch.float64) and missing("triton") is None


@kept
def _first_samples(rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """0, 1, 2, … and as many zeros."""
    return torch.arange(rows, device=device), torch.zeros(rows, dtype=torch.int64, device=device)


def fingerprint(inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Identify each sequence of a batch by its content, as a 32-bit number in an int64 tensor.

    Features (batch, time, features) or token ids (batch, time). Steps beyond a sequence's length do not count,
    so the same sequence has the same fingerprint in any batch, at any place, under any padding. Two different
    sequences share one with probability 2⁻³²; they would then share their noise, which is harmless.

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
    mixed = _mix((bits & _MASK) ^ _mix(place & _MASK))
    if lengths is not None:
        mixed = clear_padding(mixed, lengths)
    return _mix(mixed.sum(dim=(1, 2)) & _MASK)


def _mix(word: Tensor) -> Tensor:
    """Spread 32 bits over 32 bits: two rounds of xor-shift and multiply, invertible."""
    for shift, multiplier in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        word = word ^ (word >> shift)
        word = (word * multiplier) & _MASK
    return word ^ (word >> 16)
