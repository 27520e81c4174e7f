"""Ctrl-C during training: the update is finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """Training was interrupted, and everything is in order; the message says where it can be taken up again."""


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Note the first Ctrl-C instead of stopping at once, and give a function that tells whether it came.

    The second acts as ever. In a thread other than the main one signals do not arrive, and nothing is changed.
    """
    came = threading.Event()
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or usual is None:
        yield came.is_set
        return

    def note(number: int, frame: FrameType | None) -> None:
        if came.is_set():
            raise KeyboardInterrupt
        came.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield came.is_set
    finally:
        signal.signal(signal.SIGINT, usual)
