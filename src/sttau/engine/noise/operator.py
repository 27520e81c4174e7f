"""The random draws of a batch, on the engine that :mod:`sttau.engine.backend` chooses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sttau.engine import backend
from sttau.engine.constants import cached_constant
from sttau.engine.noise.reference import MASK, philox, uniform


@dataclass(frozen=True)
class Noise:
    """The identity of the random draws of a batch: one sequence and one sample number per row.

    Attributes:
        seed: Seed, a scalar int64 tensor.
        sequence: (rows,) int64, identity of each row's sequence; only the low 32 bits are used.
        sample: (rows,) int64, number of the Monte Carlo sample.
        first_step: Time of the first step, for a sequence that is read in pieces.
        layer: Number of the layer and direction, so that stacked layers have different draws.
    """

    seed: Tensor
    sequence: Tensor
    sample: Tensor
    first_step: int = 0
    layer: int = 0

    def __post_init__(self) -> None:
        """Raise unless there is one sequence and one sample number per row: kernels would read beyond an end."""
        rows, samples = self.sequence.shape, self.sample.shape
        if len(rows) != 1 or rows != samples:
            raise ValueError(
                "sequence and sample must have one number per row, with the same shape (rows,), "
                f"got {tuple(rows)} and {tuple(samples)}; Noise.of makes both"
            )

    @classmethod
    def of(cls, sequence: Tensor, samples: int = 1, seed: int = 0, first_sample: int = 0) -> Noise:
        """Noise for ``samples`` samples of the given sequences; rows are ordered sample by sample.

        Example:
            >>> noise = Noise.of(torch.tensor([7, 8]), samples=2, seed=3)
            >>> noise.sequence.tolist(), noise.sample.tolist()
            ([7, 8, 7, 8], [0, 0, 1, 1])
        """
        sample = torch.arange(first_sample, first_sample + samples, device=sequence.device)
        return cls(
            seed=torch.tensor(seed, dtype=torch.int64, device=sequence.device),
            sequence=sequence.repeat(samples),
            sample=sample.repeat_interleave(len(sequence)),
        )

    @classmethod
    def fresh(cls, batch: int, device: torch.device) -> Noise:
        """Noise under a seed drawn from PyTorch's generator of the device, as ``torch.nn.Dropout`` would."""
        seed = torch.randint(2**62, (), dtype=torch.int64, device=device)
        sequence, sample = _first_samples(batch, device)
        return cls(seed=seed, sequence=sequence, sample=sample)

    def for_layer(self, layer: int) -> Noise:
        """Return the noise of the same rows for another layer or direction."""
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
        if _engine(dtype, self.seed, self.sample, self.sequence) == "triton":
            from sttau.engine.noise import triton

            drawn = triton.uniform(self.seed, self.sample, self.sequence, self.layer << 16, first, steps, size)
            return drawn.to(dtype)
        block = torch.arange((size + 3) // 4, device=device)
        step = torch.arange(first, first + steps, device=device)
        counter = (
            ((self.layer << 16) | block)[None, None, :],
            step[None, :, None] & MASK,
            self.sample[:, None, None] & MASK,
            self.sequence[:, None, None] & MASK,
        )
        words = torch.broadcast_tensors(*philox(counter, self._key()))
        return uniform(torch.stack(words, dim=-1).flatten(-2)[..., :size], dtype)

    def normal(self, row: int, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal draws, (size,), of the sample that ``row`` belongs to: the same for all its sequences.

        The counter is (position // 4, layer, sample, 2³² - 1), and each pair of words gives a pair of values by the
        Box-Muller method.

        Example:
            >>> noise = Noise.of(torch.tensor([7, 8]), samples=2)
            >>> first, other, second = (noise.normal(row, 5) for row in (0, 1, 2))
            >>> bool((first == other).all()), bool((first == second).any())
            (True, False)
        """
        fine = torch.promote_types(dtype, torch.float32)
        pairs = self._uniform_of_sample(row, (size + 3) // 4, fine).unflatten(-1, (2, 2))
        radius, turn = (-2 * pairs[..., 0].log()).sqrt(), 2 * math.pi * pairs[..., 1]
        return torch.stack([radius * turn.cos(), radius * turn.sin()], dim=-1).flatten()[:size].to(dtype)

    def _uniform_of_sample(self, row: int, blocks: int, dtype: torch.dtype) -> Tensor:
        """Draws of the sample that ``row`` belongs to, (blocks, 4)."""
        sample = self.sample[row : row + 1]
        if _engine(dtype, self.seed, sample) == "triton":
            from sttau.engine.noise import triton

            return triton.uniform(self.seed, sample, None, 0, self.layer, 1, 4 * blocks).view(-1, 4).to(dtype)
        block = torch.arange(blocks, device=sample.device)
        layer = torch.full((), self.layer, dtype=torch.int64, device=block.device)
        words = philox((block, layer, sample[0] & MASK, torch.full_like(layer, MASK)), self._key())
        return uniform(torch.stack(words, dim=-1), dtype)

    def _key(self) -> tuple[Tensor, Tensor]:
        return self.seed & MASK, (self.seed >> 32) & MASK


def _engine(dtype: torch.dtype, *names: Tensor) -> backend.Choice:
    """The engine of a draw: one kernel on a GPU, where PyTorch's many operations would take too long to launch."""
    device = names[0].device
    for name in names:  # all must be on a GPU
        device = device if name.is_cuda else name.device
    return backend.choose("noise", device, dtype, traced=torch.compiler.is_compiling())


@cached_constant
def _first_samples(rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """0, 1, 2, … and zeros of the same shape."""
    return torch.arange(rows, device=device), torch.zeros(rows, dtype=torch.int64, device=device)
