"""``sttau-reproduce trials``: changed networks, evaluated on validation data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sttau.cli.common import DeviceOption, choose_device, plain_errors, print_line
from sttau_reproduction.cli.common import RESULTS, show_failures, show_steps


def trials(
    file: Annotated[Path, typer.Argument(help="JSON file with a list of trials.")],
    question: Annotated[str, typer.Option(help="Question that the trials answer; recorded with each result.")],
    out: Annotated[Path, typer.Option(help="File that results are appended to.")] = RESULTS / "paper/trials.jsonl.gz",
    workers: Annotated[int, typer.Option(help="Number of processes on CPUs.")] = 1,
    device: DeviceOption = "auto",
    at_once: Annotated[int, typer.Option(help="Number of networks trained at the same time on a GPU.")] = 16,
) -> None:
    """Train declared networks with some values changed, and record their metrics on validation data.

    Finished trials are not computed again; repeat the same command to resume an interrupted run.

    Example: sttau-reproduce trials trials.json --question "Reviews: does longer training help?"
    """
    from sttau_reproduction.classification.trials import read_trials, run

    device = choose_device(device)
    with plain_errors():
        outcome = run(
            read_trials(file), out, question, workers=workers, device=device, at_once=at_once, progress=show_steps()
        )
    for result in outcome.results:
        values = {name: round(value, 3) for name, value in result.metrics.items()}
        print_line(f"{result.method}, seed {result.seed}: {values}")
    print_line(f"Trials: {out}")
    show_failures(outcome.failures)
