"""``sttau-reproduce trials``: changed networks, evaluated on validation data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sttau.cli.common import DeviceOption, choose_device, plain_errors, print_line
from sttau_reproduction.cli.common import RESULTS


def trials(
    file: Annotated[Path, typer.Argument(help="JSON file with a list of trials.")],
    question: Annotated[str, typer.Option(help="Question that the trials answer; recorded with each result.")],
    out: Annotated[Path, typer.Option(help="File that results are appended to.")] = RESULTS / "paper/trials.jsonl.gz",
    device: DeviceOption = "auto",
) -> None:
    """Train declared networks with some values changed, and record their metrics on validation data.

    Example: sttau-reproduce trials trials.json --question "Reviews: does longer training help?"
    """
    from sttau_reproduction.classification.trials import read_trials, run

    device = choose_device(device)
    with plain_errors():
        run(read_trials(file), out, question, device, print_line)
    print_line(f"Trials: {out}")
