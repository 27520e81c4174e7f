"""Work shared among threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

import torch

Item = TypeVar("Item")

_SMALL = 1 << 16  # below this many values threads cost more than they save


def ranges(size: int, step: int) -> list[tuple[int, int]]:
    """Cut 0 … size into ranges of ``step``.

    Example:
        >>> ranges(5, 2)
        [(0, 2), (2, 4), (4, 5)]
    """
    return [(low, min(low + step, size)) for low in range(0, size, step)]


def run_all(function: Callable[[Item], Any], items: Iterable[Item], size: int) -> None:
    """Process all items on as many threads as PyTorch may use; the assignment to threads does not affect results.

    Args:
        function: Work on one item.
        items: Items to process.
        size: Number of values in all; for few of them no threads are used.
    """
    threads = torch.get_num_threads()
    if threads == 1 or size < _SMALL:
        for item in items:
            function(item)
    else:
        for _ in _pool(os.getpid(), threads).map(function, items):
            pass


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process; a forked child has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sttau")
