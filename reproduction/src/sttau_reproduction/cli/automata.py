"""``sttau-reproduce automata``: the experiment on automata."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sttau.cli.common import check_folder, plain_errors, print_line
from sttau_reproduction.cli.common import RESULTS, show_failures, show_steps


def automata(
    out: Annotated[
        Path | None, typer.Option(help="Folder for results; reproduction/results/automata, or …-quick.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few measurements only: about a minute.")] = False,
    workers: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also train the networks of the figures, and write snapshots.json.")
    ] = False,
) -> None:
    """Learn grammars and stochastic languages, extract automata, and compare with k-means, L*, ALERGIA and others.

    Finished measurements are not computed again; lines of results.jsonl.gz count as finished.

    Example: sttau-reproduce automata --quick
    """
    from sttau_reproduction.automata.declaration import QUICK, Plan
    from sttau_reproduction.automata.snapshots import write_snapshots
    from sttau_reproduction.automata.work import run

    out = out or RESULTS / ("automata-quick" if quick else "automata")
    check_folder(out)
    with plain_errors():
        outcome = run(out, QUICK if quick else Plan(), workers, show_steps())
        if figures:
            write_snapshots(out / "snapshots.json")
    print_line(f"Results: {out / 'results.jsonl.gz'}")
    show_failures(outcome.failures)
