"""The numbers of tables, apart from their titles and words."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

_NUMBER = re.compile(r"\d[\d,]*\.?\d*|[✓✗—±×]|\*\*")


def numbers(table: str) -> list[list[str]]:
    """All numbers and marks of a Markdown table, row by row, but for the header and the first column."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    heads = {place - 1 for place, line in enumerate(lines) if set(line) <= set("|-: ")}
    rows = [line for place, line in enumerate(lines) if place not in heads and place - 1 not in heads]
    return [[found for cell in row.strip("|").split("|")[1:] for found in _NUMBER.findall(cell)] for row in rows]


def digests(tables: Mapping[str, str]) -> dict[str, str]:
    """SHA-256 of the numbers of each table, by its name."""
    return {
        name: hashlib.sha256(json.dumps(numbers(table)).encode()).hexdigest() for name, table in sorted(tables.items())
    }


def shown_tables(page: str) -> dict[str, str]:
    """The tables between the markers of a page, by name."""
    return dict(re.findall(r"<!-- table ([\w-]+) -->\n(.*?)<!-- end -->", page, re.DOTALL))
