"""Attempts from several starts, one after the other or in several processes, with the same result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import get_context
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def run_starts(attempt: Callable[..., Result], starts: Sequence[tuple[Any, ...]], workers: int = 1) -> list[Result]:
    """Return the results of an attempt from each start, in their order.

    Every attempt runs on one thread, wherever it runs, so that the results are equal to the last bit for any number of
    processes.

    Args:
        attempt: Function of a module, so that other processes can import it.
        starts: Arguments of each attempt.
        workers: Number of processes; 1 makes all attempts in this one. A script that starts others must guard its main
            part by ``if __name__ == "__main__":``, as with any use of ``multiprocessing``.

    Example:
        >>> run_starts(pow, [(2, 3), (3, 2)])
        [8, 9]
    """
    if workers == 1 or len(starts) < 2:
        with _one_thread():
            return [attempt(*start) for start in starts]
    with ProcessPoolExecutor(min(workers, len(starts)), _context()) as pool:
        return list(pool.map(partial(_on_one_thread, attempt), starts))


@cache
def _context() -> Any:
    """Return how processes are started: on Linux, forked from a server process that has imported slow modules."""
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _on_one_thread(attempt: Callable[..., Result], start: tuple[Any, ...]) -> Result:
    """An attempt in another process."""
    with _one_thread():
        return attempt(*start)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit PyTorch and NumPy to one thread."""
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
