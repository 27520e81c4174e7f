"""Settings that the kernels of the path sum share."""

from __future__ import annotations

ANY_INTEGER = ["count", "skipped", "sources", "time", "blocks", "size"]  # arguments that Triton does not specialize on


def padded(k: int) -> int:
    """The next power of two, at least 16: the smallest side of a matrix product.

    Example:
        >>> padded(5), padded(17)
        (16, 32)
    """
    return max(16, 1 << (k - 1).bit_length())
