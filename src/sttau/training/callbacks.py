"""Callbacks of training: a progress bar and TensorBoard. Any function of an ``Update`` is one."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterable
from typing import Any

from sttau.training.log import Callback, Update


class ProgressBar:
    """A bar with the remaining time and the last loss, validation and τ. It shows nothing outside a terminal.

    ``fit`` shows one by default; to choose the title or the console, pass one among ``callbacks``.

    Args:
        title: Title of the bar.
        console: ``rich.console.Console`` to draw on; standard error by default.

    Example:
        >>> with ProgressBar("digits") as show:
        ...     show(Update(1, 10, loss=0.7, temperature=(1.0,)))
    """

    @classmethod
    def for_fit(cls, progress: bool | None, callbacks: Iterable[Callback]) -> ProgressBar | None:
        """Return the bar that ``fit`` shows; None for no bar.

        Args:
            progress: Whether to show one; None for where standard error is a terminal, in the main thread of the first
                process: bars of several trainings would overwrite each other.
            callbacks: Callbacks of the training, one of which may be a bar already.
        """
        if progress is None:
            main = threading.current_thread() is threading.main_thread() and multiprocessing.parent_process() is None
            own = any(isinstance(callback, cls) for callback in callbacks)
            return cls("training") if main and not own and sys.stderr is not None and sys.stderr.isatty() else None
        if not progress:
            return None
        from rich.console import Console

        return cls("training", Console(stderr=True, force_terminal=True))

    def __init__(self, title: str, console: Any = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True) if console is None else console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[values]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, values="", total=None)
        self._validation = ""

    def __call__(self, update: Update) -> None:
        """Show an update."""
        if update.validation is not None:
            self._validation = f"validation {update.validation:.4g}"
        temperature = ", ".join(f"{value:.3g}" for value in update.temperature)
        values = (f"loss {update.loss:.4g}", self._validation, f"τ {temperature}" if temperature else "")
        self._bar.update(self._task, completed=update.number, total=update.of, values="  ".join(filter(None, values)))

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


class TensorBoard:
    """Writes loss, validation metrics and τ for TensorBoard. Needs ``sttau[tensorboard]``.

    Pass it to ``fit`` as one of ``callbacks``. A resumed run hides what was written after its checkpoint.

    Args:
        folder: Folder for TensorBoard's files.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("TensorBoard is not installed: pip install 'sttau[tensorboard]'") from error
        self._make: Any = SummaryWriter
        self._folder = str(folder)
        self._writer: Any = None

    def __call__(self, update: Update) -> None:
        """Write an update."""
        if self._writer is None:
            self._writer = self._make(self._folder, purge_step=update.number)
        values = {"loss": update.loss, "gradient norm": update.gradient_norm}
        values |= {f"temperature/{place}": value for place, value in enumerate(update.temperature)}
        values |= {f"validation/{name}": value for name, value in update.metrics.items()}
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, update.number)
        if update.metrics or update.number == update.of:
            self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
