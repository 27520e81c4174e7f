"""``sttau-reproduce tables``: all tables and figures of the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sttau_reproduction.cli.common import plain_errors


def tables(
    root: Annotated[Path, typer.Option(help="Root of the repository.")] = Path(),
) -> None:
    """Renew every table and figure of the documentation from the committed results; nothing is trained.

    Example: sttau-reproduce tables
    """
    from sttau_reproduction.documentation import renew_documentation

    console = Console()
    with plain_errors(console):
        for path in renew_documentation(root):
            console.print(f"Renewed: {path}", soft_wrap=True, highlight=False)
