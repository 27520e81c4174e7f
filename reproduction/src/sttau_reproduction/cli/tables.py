"""``sttau-reproduce tables``: all tables and figures of the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sttau.cli.common import plain_errors, print_line


def tables(
    root: Annotated[Path, typer.Option(help="Root of the repository.")] = Path(),
) -> None:
    """Update every table and figure of the documentation from the committed results; trains nothing.

    Example: sttau-reproduce tables
    """
    from sttau_reproduction.documentation import renew_documentation

    with plain_errors():
        for path in renew_documentation(root):
            print_line(f"Renewed: {path}")
