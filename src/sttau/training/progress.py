"""Training as it goes, for people at a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sttau.training import Update


class RichProgress:
    """A bar with the time that is left, and the last loss, validation and τ. Nothing where the output is no terminal.

    Hand it to ``fit`` as ``callbacks``.

    Args:
        title: what is being trained.
        console: where to show it; standard error by default.

    Example:
        >>> with RichProgress("digits") as show:
        ...     show(Update(1, 10, loss=0.7, temperature=(1.0,)))
    """

    def __init__(self, title: str, console: Console | None = None) -> None:
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

    def __enter__(self) -> RichProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
