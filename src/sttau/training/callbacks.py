"""Callbacks of training: a progress bar and TensorBoard. Any function of an ``Update`` is one."""

from __future__ import annotations

import os
from typing import Any

from sttau.training.log import Update


class ProgressBar:
    """A bar with the remaining time and the last loss, validation and τ. It shows nothing outside a terminal.

    Pass it to ``fit`` as one of ``callbacks``.

    Args:
        title: Title of the bar.
        console: ``rich.console.Console`` to draw on; standard error by default.

    Example:
        >>> with ProgressBar("digits") as show:
        ...     show(Update(1, 10, loss=0.7, temperature=(1.0,)))
    """

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
