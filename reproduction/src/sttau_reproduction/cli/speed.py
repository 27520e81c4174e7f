"""``sttau-reproduce speed``: timings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sttau_reproduction.cli.common import check_folder, choose_device, show_table

app = typer.Typer(help="Time the baselines and compiled networks.")


@app.command()
def baselines(
    out: Annotated[Path, typer.Option(help="Folder for results and table.")] = Path("bench"),
    device: Annotated[str, typer.Option(help="cuda or cpu; auto for the GPU where there is one.")] = "auto",
    threads: Annotated[int, typer.Option(help="Number of CPU threads; 0 for PyTorch's default.")] = 0,
    seconds: Annotated[float, typer.Option(help="Duration of each method in each of the seven rounds.")] = 0.15,
) -> None:
    """Time a deep ensemble, Bayes by Backprop and variational dropout relative to nn.LSTM.

    Example: sttau-reproduce speed baselines --out bench
    """
    import torch

    from sttau.files import write_atomically
    from sttau.jobs import write_results
    from sttau.tables import markdown_table
    from sttau_reproduction.speed.baselines import measure_baselines
    from sttau_reproduction.speed.tables import BASELINES, baseline_table

    console = Console()
    check_folder(console, out)
    device = choose_device(console, device)
    if threads:
        torch.set_num_threads(threads)
    results = []
    with console.status("") as status:
        for result in measure_baselines(device=device, round_seconds=seconds, progress=status.update):
            results.append(result)
            write_results(results, out / "baselines.jsonl")
    rows = baseline_table(results)
    show_table(console, f"Time relative to nn.LSTM, {results[0].hardware}", BASELINES, rows, left=2)
    write_atomically(out / "baselines.md", markdown_table(rows, BASELINES).encode())
    console.print(f"Results: {out / 'baselines.jsonl'}, table: {out / 'baselines.md'}", soft_wrap=True)


@app.command()
def automata(
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("bench"),
    threads: Annotated[int, typer.Option(help="Number of CPU threads; 0 for PyTorch's default.")] = 0,
    seconds: Annotated[float, typer.Option(help="Duration of each method in each of the seven rounds.")] = 0.15,
) -> None:
    """Time networks compiled to tables, relative to the networks themselves, on the CPU.

    Example: sttau-reproduce speed automata --out bench
    """
    import torch

    from sttau.jobs import write_results
    from sttau_reproduction.speed.automata import measure_compiled
    from sttau_reproduction.speed.tables import COMPILED, compiled_rows

    console = Console()
    check_folder(console, out)
    if threads:
        torch.set_num_threads(threads)
    with console.status("") as status:
        results = list(measure_compiled(round_seconds=seconds, progress=status.update))
    path = write_results(results, out / "automata.jsonl")
    show_table(console, f"Million symbols per second, {results[0].hardware}", COMPILED, compiled_rows(results), left=1)
    console.print(f"Results: {path}", soft_wrap=True)
