"""Results of a benchmark as JSON lines."""

from __future__ import annotations

import gzip
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from sttau.files import write_atomically
from sttau.version import __version__


def show_and_write(rows: Sequence[Mapping[str, Any]], path: Path | None) -> None:
    """Print the last row; write all rows, with versions and hardware, if there is a path.

    Args:
        rows: Results so far.
        path: File to write; compressed if its name ends in ``.gz``. None to print only.
    """
    print(json.dumps(rows[-1]), flush=True)
    if path is None:
        return
    versions = {"sttau": __version__, "torch": torch.__version__, "python": platform.python_version()}
    lines = [json.dumps({**row, "versions": versions, "hardware": "one CPU thread"}) + "\n" for row in rows]
    content = "".join(lines).encode()
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
