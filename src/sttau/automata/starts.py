"""Attempts from several starts, one after the other or in several processes, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
        workers: Number of processes; 1 makes all attempts in this one.

    Example:
        >>> run_starts(pow, [(2, 3), (3, 2)])
        [8, 9]
    """
    if workers == 1 or len(starts) < 2:
        with _one_thread():
            return [attempt(*start) for start in starts]
    from joblib import Parallel, delayed

    results: list[Result] = Parallel(n_jobs=min(workers, len(starts)))(
        delayed(_on_one_thread)(attempt, start) for start in starts
    )
    return results


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
