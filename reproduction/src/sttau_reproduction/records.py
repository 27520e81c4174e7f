"""Records as JSON lines, in files of a kind that only grow: compressed if the name ends in ``.gz``."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read a file of records, one dictionary per line."""
    return [json.loads(line) for line in _decompressed(path).decode().splitlines()]


def append_records(records: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Append records to a file, which is made where there is none; the lines that it has already stay as they are.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "notes.jsonl.gz")
        ...     append_records([{"a": 1}], path)
        ...     append_records([{"a": 2}], path)
        ...     read_records(path)
        [{'a': 1}, {'a': 2}]
    """
    content = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _decompressed(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content
