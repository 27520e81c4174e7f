"""``sttau-reproduce report``: tables and figures of the paper's experiments from their results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sttau.cli.common import check_folder, plain_errors, print_line
from sttau_reproduction.cli.common import RESULTS


def report(
    folder: Annotated[
        Path, typer.Argument(help="Folder of sttau-reproduce paper, with results.jsonl.gz and summary.npz.")
    ] = RESULTS / "paper",
    out: Annotated[Path | None, typer.Option(help="Folder for tables and figures; FOLDER/report by default.")] = None,
    docs: Annotated[
        list[Path] | None, typer.Option(help="Page whose marked tables and figures are updated; repeatable.")
    ] = None,
) -> None:
    """Write every table and figure of the paper's experiments from the results, without any training.

    The same results give the same files, byte for byte.

    Example: sttau-reproduce report reproduction/results/paper --docs reproduction/docs/results.md
    """
    from sttau_reproduction.classification.report import write_report

    out = folder / "report" if out is None else out
    check_folder(out)
    with plain_errors():
        written = write_report(folder, out, docs or ())
    pictures = sum(path.suffix == ".png" for path in written if path.parent == out)
    print_line(f"Report: {out / 'report.html'}, with {pictures} figures")
    for page in docs or ():
        print_line(f"Renewed: {page}")
