"""CUDA streams for work that is too small to fill a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch

T = TypeVar("T")


class StreamPool:
    """Runs several pieces of work concurrently, each on its own stream that forks from and joins the current one.

    The results may be used on the current stream afterwards; they must not be freed while other work is running.

    Args:
        device: Device of the streams; on a CPU the work is run sequentially.

    Example:
        >>> StreamPool(torch.device("cpu")).run([lambda: 1, lambda: 2])
        [1, 2]
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.streams: list[torch.cuda.Stream] = []

    def run(self, works: Iterable[Callable[[], T]]) -> list[T]:
        """Run all; return their results."""
        works = list(works)
        if self.device.type != "cuda":
            return [work() for work in works]
        while len(self.streams) < len(works):
            self.streams.append(torch.cuda.Stream(self.device))
        current = torch.cuda.current_stream(self.device)
        streams = self.streams[: len(works)]
        for stream in streams:
            stream.wait_stream(current)
        results = []
        try:
            for work, stream in zip(works, streams, strict=True):
                with torch.cuda.stream(stream):
                    results.append(work())
        finally:
            for stream in streams:
                current.wait_stream(stream)
        return results
