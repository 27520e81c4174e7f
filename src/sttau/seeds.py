"""Seeds derived from one seed, so that each use of randomness has its own."""

from __future__ import annotations

import hashlib


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit seed of its own for every purpose.

    Example:
        >>> derive_seed(0, "order", 1) == derive_seed(0, "order", 1) != derive_seed(0, "order", 2)
        True
    """
    text = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
