"""``sttau-reproduce power``: the regression on household power."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sttau.cli.common import check_folder, plain_errors, print_line
from sttau_reproduction.cli.common import RESULTS, show_failures, show_steps


def power(
    out: Annotated[
        Path | None, typer.Option(help="Folder for results; reproduction/results/household-power, or …-quick.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Very small networks, to check that everything runs.")] = False,
    seeds: Annotated[int, typer.Option(help="Number of seeds per network.")] = 5,
    history: Annotated[int, typer.Option(help="Number of input hours, for instance 168.")] = 24,
    workers: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    method: Annotated[
        list[str] | None, typer.Option(help="Method to compute; repeatable. Results of other methods are kept.")
    ] = None,
) -> None:
    """Forecast electric power an hour and a day ahead, with networks, boosted trees and naive methods.

    Finished results are not computed again; repeat the same command to resume an interrupted run.

    Example: sttau-reproduce power --quick
    """
    from sttau_reproduction.power.declaration import EXPERIMENT, QUICK, Plan, name_of
    from sttau_reproduction.power.work import run

    out = out or RESULTS / (f"{EXPERIMENT}-quick" if quick else EXPERIMENT)
    check_folder(out)
    with plain_errors():
        if history < 2:
            raise ValueError(f"--history must be at least 2 hours, got {history}; one hour is always evaluated too")
        plan = replace(QUICK, history=history) if quick else Plan(seeds=seeds, history=history)
        progress = show_steps(lambda cell: f"{cell.settings['setting']}: {name_of(cell)}, seed {cell.seed}")
        outcome = run(out, plan, workers, progress, method or ())
    print_line(f"Results: {out / 'results.jsonl.gz'}")
    show_failures(outcome.failures)
