"""``sttau-reproduce trials``: changed networks, evaluated on validation data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sttau_reproduction.cli.common import RESULTS, choose_device, plain_errors


def trials(
    file: Annotated[Path, typer.Argument(help="JSON file with a list of trials.")],
    question: Annotated[str, typer.Option(help="What the trials are to find out; recorded with each result.")],
    out: Annotated[Path, typer.Option(help="File that results are appended to.")] = RESULTS / "paper/trials.jsonl",
    device: Annotated[str, typer.Option(help="cuda or cpu; auto for the GPU where there is one.")] = "auto",
) -> None:
    """Train declared networks with some values changed, and record their metrics on validation data.

    Example: sttau-reproduce trials trials.json --question "Reviews: does longer training help?"
    """
    from sttau_reproduction.classification.trials import read_trials, run

    console = Console()
    device = choose_device(console, device)
    with plain_errors(console):
        run(
            read_trials(file),
            out,
            question,
            device,
            lambda line: console.print(line, soft_wrap=True, highlight=False, markup=False),
        )
    console.print(f"Trials: {out}", soft_wrap=True)
