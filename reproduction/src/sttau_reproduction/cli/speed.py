"""``sttau-reproduce speed``: timings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sttau.cli.common import (
    DeviceOption,
    SecondsOption,
    ThreadsOption,
    check_folder,
    choose_device,
    print_line,
    print_table,
    set_threads,
)

app = typer.Typer(help="Time the baselines and compiled networks.")


@app.command()
def baselines(
    out: Annotated[Path, typer.Option(help="Folder for results and table.")] = Path("bench"),
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    seconds: SecondsOption = 0.15,
) -> None:
    """Time a deep ensemble, Bayes by Backprop and variational dropout relative to nn.LSTM.

    Example: sttau-reproduce speed baselines --out bench
    """
    from sttau.files import write_atomically
    from sttau.jobs import write_results
    from sttau.tables import markdown_table
    from sttau_reproduction.speed.baselines import measure_baselines
    from sttau_reproduction.speed.tables import BASELINES, baseline_table

    check_folder(out)
    device = choose_device(device)
    set_threads(threads)
    results = []
    with Console().status("") as status:
        for result in measure_baselines(device=device, round_seconds=seconds, progress=status.update):
            results.append(result)
            write_results(results, out / "baselines.jsonl")
    rows = baseline_table(results)
    print_table(BASELINES, rows, title=f"Time relative to nn.LSTM, {results[0].hardware}", align="llr")
    write_atomically(out / "baselines.md", markdown_table(rows, BASELINES).encode())
    print_line(f"Results: {out / 'baselines.jsonl'}, table: {out / 'baselines.md'}")


@app.command()
def automata(
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("bench"),
    threads: ThreadsOption = 0,
    seconds: SecondsOption = 0.15,
) -> None:
    """Time networks compiled to tables, relative to the networks themselves, on the CPU.

    Example: sttau-reproduce speed automata --out bench
    """
    from sttau.jobs import write_results
    from sttau_reproduction.speed.automata import measure_compiled
    from sttau_reproduction.speed.tables import COMPILED, compiled_rows

    check_folder(out)
    set_threads(threads)
    with Console().status("") as status:
        results = list(measure_compiled(round_seconds=seconds, progress=status.update))
    path = write_results(results, out / "automata.jsonl")
    print_table(COMPILED, compiled_rows(results), title=f"Million symbols per second, {results[0].hardware}")
    print_line(f"Results: {path}")
