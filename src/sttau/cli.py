"""The command line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

app = typer.Typer(
    name="sttau",
    help="Recurrent networks that know when they do not know.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


@app.callback()
def main() -> None:
    """Recurrent networks that know when they do not know."""


@app.command()
def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the report, its figures and results.")] = Path("quickstart"),
    seed: Annotated[int, typer.Option(help="All randomness follows from it.")] = 0,
) -> None:
    """Learn an automaton and prove it; classify digits with uncertainty; write a report.

    Needs no data and no GPU, and takes about a minute on two cores.

    Example: sttau quickstart --out quickstart
    """
    import torch

    from sttau.experiments.quickstart import run_quickstart
    from sttau.report.html import summary_table, write_report

    torch.set_num_threads(1)  # the steps are small: more threads would only wait for each other
    console = Console()
    if out.exists() and not out.is_dir():
        console.print(f"[red]--out {out} is a file; name a folder[/red]")
        raise typer.Exit(2)
    began = time.perf_counter()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    tasks: dict[str, TaskID] = {}

    def show(title: str, done: int, of: int) -> None:
        if title not in tasks:
            if not console.is_terminal:
                console.print(f"training: {title}")
            for task in bar.tasks:  # what ended early is done
                bar.update(task.id, total=task.completed)
            tasks[title] = bar.add_task(title, total=of)
        bar.update(tasks[title], completed=done)

    with bar:
        result = run_quickstart(seed=seed, progress=show)
    page = write_report(result, out)

    automaton = result.automaton
    size = len(automaton.extracted.dfa.states)
    if automaton.equivalence:
        console.print(
            f"Tomita {result.settings.grammar}: [green]the extracted DFA ({size} states) is proved equal[/green]"
        )
    else:
        example = automaton.equivalence.counterexample
        console.print(
            f"Tomita {result.settings.grammar}: [red]the extracted DFA ({size} states) differs on “{example}”[/red]"
        )
    header, rows = summary_table(result.results)
    table = Table(title=f"Handwritten digits, {result.settings.digit_seeds} seeds", title_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"Report: {page} ({time.perf_counter() - began:.0f} s)", soft_wrap=True)
    if not automaton.equivalence:
        raise typer.Exit(1)
