"""Parts shared by the commands: output, errors and exit codes, checks of options, progress.

Exit codes: 0 success, 1 failure, 2 wrong option, 130 interrupted. Errors are one line on standard error.
"""

from __future__ import annotations

import codecs
import csv
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, NoReturn, get_args

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

SeedOption = Annotated[int, typer.Option(help="Seed of all randomness.")]
DeviceOption = Annotated[str, typer.Option(help="Device: cuda, cpu, or auto (the GPU if available).")]
ThreadsOption = Annotated[int, typer.Option(min=0, max=1024, help="Number of CPU threads; 0 for PyTorch's default.")]

SecondsOption = Annotated[
    float, typer.Option(min=0, max=3600, help="Duration of each method in each of the seven rounds.")
]

FeaturesOption = Annotated[
    list[str] | None,
    typer.Option(help="Columns of features, or of the steps of a wide table, separated by commas; repeatable."),
]
LayoutOption = Annotated[
    str | None, typer.Option(help="Layout: long, wide, text or strings; inferred from the columns by default.")
]
WideOption = Annotated[bool, typer.Option("--wide", help="One row per series, as --layout wide.")]
TaskOption = Annotated[str | None, typer.Option(help="classification or regression; inferred by default.")]


#: What is written for a character that the encoding of the output lacks; a ``?`` for all others.
PLAIN = {
    "τ": "tau", "α": "alpha", "µ": "u", "μ": "u", "▲": "^", "▼": "v", "≤": "<=", "≥": ">=", "±": "+/-", "×": "x",
    "·": "*", "…": "...", "–": "-", "—": "-", "−": "-", "→": "->", "“": '"', "”": '"', "’": "'", "•": "*",
}  # fmt: skip


def _replace_characters(error: UnicodeError) -> tuple[str, int]:
    """Error handler of an encoding: return plain characters."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


class App(typer.Typer):
    """A command line that writes to every terminal, whatever characters the terminal's encoding lacks."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Run the command."""
        codecs.register_error("sttau.plain", _replace_characters)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="sttau.plain")
        try:
            return super().__call__(*arguments, **options)
        except KeyboardInterrupt:  # while modules are imported
            sys.exit(130)


def make_app(name: str, about: str, package: str, commands: Iterable[str]) -> App:
    """Assemble a command line from the modules of a package.

    Args:
        name: Name of the command line.
        about: First line of its help.
        package: Package of the modules.
        commands: Names of the modules. A module with an ``app`` is a group of commands; any other has a function of its
            own name, which is the command.
    """
    app = App(name=name, help=about, no_args_is_help=True, pretty_exceptions_show_locals=False)

    @app.callback()
    def common(
        debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    ) -> None:
        set_debug(debug)

    for command in commands:
        module = import_module(f"{package}.{command}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=command, no_args_is_help=True)
        else:
            app.command(command)(getattr(module, command))
    return app


# ------------------------------------------------------------------------------------------------------------- output


def print_line(text: str, style: str | None = None) -> None:
    """Print a line as it is: not wrapped, without markup, and highlighted only by a style."""
    Console().print(text, style=style, soft_wrap=True, markup=False, highlight=False)


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, title: str | None = None, align: str = "lr"
) -> None:
    """Print a table.

    Args:
        header: Headings of the columns.
        rows: Cells of every row: text, or anything that rich can render.
        title: Title above the table.
        align: Alignment of the columns, a letter each: ``l`` for left, ``r`` for right. The last letter holds for all
            further columns.

    Example:
        >>> print_table(["method", "error %"], [["lstm", "4.0"], ["st-tau", "12.5"]])
        ┏━━━━━━━━┳━━━━━━━━━┓
        ┃ method ┃ error % ┃
        ┡━━━━━━━━╇━━━━━━━━━┩
        │ lstm   │     4.0 │
        │ st-tau │    12.5 │
        └────────┴─────────┘
    """
    table = Table(title=title, title_justify="left")
    for column, name in enumerate(header):
        justify: Literal["left", "right"] = "left" if align[min(column, len(align) - 1)] == "l" else "right"
        table.add_column(name, justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console.width = 10_000  # in a file or a pipe a table is as wide as it needs to be
    console.print(table)


def duration(seconds: float) -> str:
    """Return a duration in a unit that suits it.

    Example:
        >>> duration(42), duration(420), duration(42_000)
        ('42 s', '7 min', '11.7 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    Example:
        >>> count(1, "seed"), count(3, "seed")
        ('1 seed', '3 seeds')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


class ProgressBars:
    """A progress bar per title in a terminal; elsewhere one line per title.

    Args:
        prefix: First word of the line, for instance "training:".
        count: Column that shows how much is done.

    Example:
        >>> from rich.progress import MofNCompleteColumn
        >>> with ProgressBars("training:", MofNCompleteColumn()) as bars:
        ...     bars.update("lstm", 1, 10)
        training: lstm
    """

    def __init__(self, prefix: str, count: ProgressColumn) -> None:
        self._prefix = prefix
        self._console = Console()
        columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
        self._bars = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> ProgressBars:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def update(self, title: str, done: int, total: int | None) -> None:
        """Show how much of a task is done. A task is complete when the next one begins, even if it ended early."""
        if title not in self._tasks:
            if not self._console.is_terminal:
                print_line(f"{self._prefix} {title}")
            for task in self._bars.tasks:
                self._bars.update(task.id, total=task.completed)
            self._tasks[title] = self._bars.add_task(title, total=total)
        self._bars.update(self._tasks[title], completed=done, total=total)


# ------------------------------------------------------------------------------------------------------------- errors


_debugs = False


def set_debug(debug: bool) -> None:
    """Choose whether errors are shown with their traceback."""
    global _debugs
    _debugs = debug


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    Console(stderr=True).print(f"Warning: {message}", style="yellow", soft_wrap=True, markup=False, highlight=False)


@contextmanager
def plain_errors(hint: str = "") -> Iterator[None]:
    """Print expected errors and warnings as one line each, without a traceback.

    The exit code is 1 after an error, and 130 after an interruption. With ``--debug``, errors are raised as they are.

    Args:
        hint: What to do after an interruption.
    """
    shown = warnings.showwarning
    warnings.showwarning = _print_warning
    try:
        yield
    except (OSError, ValueError, ImportError, FloatingPointError, KeyboardInterrupt) as error:
        if _debugs:
            raise
        _exit_after(error, hint)
    finally:
        warnings.showwarning = shown


def _exit_after(error: BaseException, hint: str) -> NoReturn:
    """Print an error as one line, and exit."""
    if isinstance(error, BrokenPipeError):  # whoever reads the output has seen enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (Python flushes it at exit)
        raise typer.Exit(0) from error
    if isinstance(error, KeyboardInterrupt):
        _print_error(" ".join(filter(None, (str(error) or "interrupted", hint))))
        raise typer.Exit(130) from error
    if isinstance(error, OSError) and error.filename and error.strerror:
        _print_error(f"{error.filename}: {error.strerror}")
    else:
        _print_error(str(error))
    raise typer.Exit(1) from error


def usage_error(message: str) -> NoReturn:
    """Print what is wrong with an option, and exit with code 2."""
    _print_error(message)
    raise typer.Exit(2)


def _print_error(message: str) -> None:
    Console(stderr=True).print(message, style="red", soft_wrap=True, markup=False, highlight=False)


# ------------------------------------------------------------------------------------------------------------- options


def check_folder(out: Path) -> None:
    """Refuse a file where a folder is expected, before any work."""
    if out.exists() and not out.is_dir():
        usage_error(f"--out must be a folder, but {out} is a file")


def check_output(out: str | Path, *read: str | Path | None) -> None:
    """Refuse to overwrite a file that is read, or one of a folder that is, before any work.

    Args:
        out: File to write.
        read: Files and folders that the command reads.
    """
    path = Path(out)
    if not path.is_file():
        return
    for place in [Path(given) for given in read if given]:
        files = place.iterdir() if place.is_dir() else (place,)
        if any(file.is_file() and path.samefile(file) for file in files):
            usage_error(f"--out {out} would overwrite what is read, {place}; choose another name")


def split_names(given: list[str] | None) -> list[str] | None:
    """Return the names of an option that is repeatable and separates names by commas; quotes hold a comma in a name.

    Example:
        >>> split_names(["pressure,flow", '"a,b"']), split_names(None)
        (['pressure', 'flow', 'a,b'], None)
    """
    names = [name.strip() for text in given or () for name in next(csv.reader([text], skipinitialspace=True), [])]
    return [name for name in names if name] or None


def choose_layout(layout: str | None, wide: bool) -> str | None:
    """Return the layout of a table that ``--layout`` or ``--wide`` names."""
    from sttau.data.schema import Layout

    layouts = get_args(Layout)
    if layout is not None and layout not in layouts:
        usage_error(f"--layout must be one of {', '.join(layouts)}, got {layout!r}")
    if wide and layout not in (None, "wide"):
        usage_error(f"--wide is --layout wide; leave out one of --wide and --layout {layout}")
    return "wide" if wide else layout


def choose_device(device: str) -> str:
    """Return the named device; for ``auto`` the GPU where there is one, else the CPU."""
    import torch

    available = ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)
    if device == "auto":
        return available[0]
    if device not in available:
        usage_error(f"--device {device} is not available; this machine has {' and '.join(available)}")
    return device


def set_threads(threads: int) -> None:
    """Set the number of CPU threads; 0 leaves PyTorch's default."""
    import torch

    if threads:
        torch.set_num_threads(threads)
