"""``sttau quickstart``: the first run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import MofNCompleteColumn

from sttau.cli.common import (
    ProgressBars,
    SeedOption,
    check_folder,
    count,
    plain_errors,
    print_line,
    print_table,
    set_threads,
)


def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the report, its figures and results.")] = Path("quickstart"),
    seed: SeedOption = 0,
) -> None:
    """Learn a language, extract its automaton and prove it equal; classify digits with uncertainty; write a report.

    Needs no data and no GPU, and takes about a minute on two cores.

    Example: sttau quickstart --out quickstart
    """
    from sttau.quickstart import run_quickstart
    from sttau.report.html import summary_table, write_report

    check_folder(out)
    set_threads(1)  # the steps are small: more threads would only wait for each other
    began = time.perf_counter()
    with plain_errors():
        with ProgressBars("training:", MofNCompleteColumn()) as bars:
            result = run_quickstart(seed=seed, progress=bars.update)
        page = write_report(result, out)

    equivalence = result.automaton.equivalence
    language = f"Tomita {result.settings.grammar}"
    extracted = f"the extracted DFA ({len(result.automaton.extracted.dfa.states)} states)"
    if equivalence:
        print_line(f"{language}: {extracted} is proved equal", style="green")
    else:
        print_line(f"{language}: {extracted} differs on “{equivalence.counterexample}”", style="red")
    seeds = count(result.settings.digit_seeds, "seed")
    print_table(*summary_table(result.results), title=f"Handwritten digits, {seeds}")
    print_line(f"Report: {page} ({time.perf_counter() - began:.0f} s)")
    if not equivalence:
        raise typer.Exit(1)
