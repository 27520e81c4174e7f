"""``sttau-reproduce merge``: results of another folder, as of another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sttau.cli.common import plain_errors, print_line
from sttau_reproduction.cli.common import RESULTS


def merge(
    source: Annotated[Path, typer.Argument(help="Folder of a run of sttau-reproduce paper.")],
    into: Annotated[Path, typer.Option(help="Folder to which the results are added.")] = RESULTS / "paper",
    renew: Annotated[bool, typer.Option("--renew", help="Replace results of networks and seeds in both.")] = False,
) -> None:
    """Add the results, summaries and diagnostics of one folder to those of another; keep existing ones.

    Example: sttau-reproduce merge run --into reproduction/results/paper
    """
    from sttau_reproduction.classification.merging import merge_folder

    with plain_errors():
        if not source.is_dir():
            raise FileNotFoundError(f"{source} is no folder; name one that sttau-reproduce paper wrote")
        added = merge_folder(source, into, renew)
        for name in added:
            print_line(f"Added: {name}")
        print_line(f"{into}: {len(added)} results added")
