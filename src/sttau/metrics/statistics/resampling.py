"""Random draws for the bootstrap and the randomization test, in chunks of bounded size.

The draws depend on the seed and the number of rows alone, not on the size of the chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from sttau.checks import as_integer

_CHUNK_ELEMENTS = 1 << 22  # elements drawn at once, approximately; signs are few enough to stay in the cache
_CACHED_ELEMENTS = 1 << 18  # elements processed at once, few enough to stay in the cache


def draw_rows(size: int, resamples: int, seed: int, at_once: int | None = None) -> Iterator[Tensor]:
    """Draw ``size`` row indices with replacement, ``resamples`` times; yields (some, size)."""
    resamples = as_integer("resamples", resamples, 1)
    generator = torch.Generator().manual_seed(seed)
    at_once = at_once or max(1, _CHUNK_ELEMENTS // size)
    for first in range(0, resamples, at_once):
        yield torch.randint(size, (min(at_once, resamples - first), size), generator=generator)


def draw_counts(sizes: Sequence[int], resamples: int, seed: int) -> Iterator[Tensor]:
    """Count how often each row is drawn by :func:`draw_rows`; yields (some, rows).

    Args:
        sizes: Numbers of rows of groups that are resampled separately, such as in-distribution and OOD sequences. The
            n-th group is drawn with ``seed + n``.
        resamples: Number of resamples.
        seed: Seed of the draws.
    """
    at_once = max(1, _CHUNK_ELEMENTS // sum(sizes))
    groups = [draw_rows(size, resamples, seed + n, at_once) for n, size in enumerate(sizes)]
    for draws in zip(*groups, strict=True):
        yield torch.cat([_counts(draw, size) for draw, size in zip(draws, sizes, strict=True)], 1)


def draw_signs(size: int, rounds: int, seed: int) -> Iterator[Tensor]:
    """Draw -1 (exchange) or 1 (keep) for each row, ``rounds`` times; yields (some, size)."""
    generator = torch.Generator().manual_seed(seed)
    at_once = max(1, _CACHED_ELEMENTS // max(1, size))
    for start in range(0, rounds, at_once):
        shape = (min(at_once, rounds - start), size)
        exchanged = torch.randint(2, shape, generator=generator, dtype=torch.int8).to(torch.float64)
        yield exchanged.mul_(-2).add_(1)


def in_pieces(chunks: Iterable[Tensor]) -> Iterator[Tensor]:
    """Split chunks into pieces that stay in the cache."""
    for chunk in chunks:
        yield from chunk.split(max(1, _CACHED_ELEMENTS // chunk.shape[1]))


def _counts(draws: Tensor, size: int) -> Tensor:
    counts = torch.zeros(len(draws), size, dtype=torch.float64)
    return counts.scatter_add_(1, draws, torch.ones_like(draws, dtype=torch.float64))
