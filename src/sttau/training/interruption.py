"""Ctrl-C during training: the present update is completed first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """Training was interrupted after a completed update; the message says from where it can be resumed."""


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Record the first Ctrl-C instead of raising, and yield a function that returns whether it received.

    The second one raises KeyboardInterrupt. Threads other than the main one receive no signals; nothing is changed.
    """
    received = threading.Event()
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous is None:
        yield received.is_set
        return

    def note(number: int, frame: FrameType | None) -> None:
        if received.is_set():
            raise KeyboardInterrupt
        received.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield received.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
