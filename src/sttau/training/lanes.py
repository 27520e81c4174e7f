"""Streams beside the current one, for work that is too small to fill a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch

T = TypeVar("T")


class Lanes:
    """Does pieces of work beside each other, each on a stream that begins and ends where the current one is.

    What one piece made may be used on the current stream afterwards; it must not be let go of while others are at work.

    Args:
        device: on a CPU they are done one after another.

    Example:
        >>> Lanes(torch.device("cpu")).do([lambda: 1, lambda: 2])
        [1, 2]
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.streams: list[torch.cuda.Stream] = []

    def do(self, works: Iterable[Callable[[], T]]) -> list[T]:
        """Do all; return what each has returned."""
        works = list(works)
        if self.device.type != "cuda":
            return [work() for work in works]
        while len(self.streams) < len(works):
            self.streams.append(torch.cuda.Stream(self.device))
        current = torch.cuda.current_stream(self.device)
        streams = self.streams[: len(works)]
        for stream in streams:
            stream.wait_stream(current)
        done = []
        try:
            for work, stream in zip(works, streams, strict=True):
                with torch.cuda.stream(stream):
                    done.append(work())
        finally:
            for stream in streams:
                current.wait_stream(stream)
        return done
