"""Seeds derived from one seed, so that each use of randomness has its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit seed of its own for every purpose.

    Example:
        >>> derive_seed(0, "order", 1) == derive_seed(0, "order", 1) != derive_seed(0, "order", 2)
        True
    """
    text = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seed_generators(seed: int) -> None:
    """Seed PyTorch's own generators, those of all devices, as :func:`torch.manual_seed` does.

    For each kind of device that is not in use, that formats the whole call stack, which takes as long as an update of a
    small network. Where there is no device but the CPU, its generator is seeded alone.

    Example:
        >>> import torch
        >>> seed_generators(0)
        >>> torch.initial_seed()
        0
    """
    import torch

    if _has_accelerator():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def seeded(seed: int, *, cpu_only: bool = False) -> Iterator[None]:
    """Context in which PyTorch's generators are seeded; after it they continue as if nothing had been drawn.

    Args:
        seed: Seed.
        cpu_only: Whether only the generator of the CPU is seeded, which does not initialize CUDA.

    Example:
        >>> import torch
        >>> with seeded(1):
        ...     first = torch.rand(3)
        >>> with seeded(1):
        ...     print(bool((torch.rand(3) == first).all()))
        True
    """
    import torch

    with torch.random.fork_rng(devices=[] if cpu_only else range(torch.cuda.device_count())):
        (torch.default_generator.manual_seed if cpu_only else torch.manual_seed)(seed)
        yield


@cache
def _has_accelerator() -> bool:
    import torch

    return torch.accelerator.is_available()
