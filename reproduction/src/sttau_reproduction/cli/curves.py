"""``sttau-reproduce curves``: validation metrics in the course of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sttau.cli.common import plain_errors, print_line
from sttau_reproduction.cli.common import RESULTS


def curves(
    folder: Annotated[Path, typer.Argument(help="Folder with trained networks and their logs.")],
    question: Annotated[str, typer.Option(help="Question that the curves answer; recorded with each.")],
    out: Annotated[Path, typer.Option(help="File that curves are appended to.")] = RESULTS / "paper/curves.jsonl.gz",
    trials: Annotated[
        Path | None,
        typer.Option(help="JSON file of trials, whose curves are recorded instead of those of declared networks."),
    ] = None,
) -> None:
    """Record validation error and NLL during training, from the logs of trained networks.

    Example: sttau-reproduce curves reproduction/results/paper/networks --question "When does training converge?"
    """
    from sttau_reproduction.classification import curves as experiment
    from sttau_reproduction.classification.cells import cells_of
    from sttau_reproduction.classification.networks import NETWORKS
    from sttau_reproduction.classification.trials import read_trials

    with plain_errors():
        found = experiment.curves(cells_of(NETWORKS) if trials is None else read_trials(trials), folder)
        experiment.append_curves(found, question, out)
    print_line(f"{len(found)} networks: {out}")
