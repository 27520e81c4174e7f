"""The outcomes as tables of the documentation: ``python -m tests.faults.table`` prints them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from sttau.tables import markdown_table
from tests.faults.harness import OUTCOMES


def make_table(outcomes: dict[str, Any]) -> str:
    """Return the tables of killed processes, conditions and damaged files."""
    kills = [
        [
            name,
            f"{part['kills']:,}",
            f"{part['same']:,}",
            f"{part['updates lost']:,}" if "updates lost" in part else "–",
        ]
        for name, part in outcomes["kills"].items()
    ]
    total = sum((Counter(part) for part in outcomes["kills"].values()), Counter[str]())
    kills.append(["all", f"{total['kills']:,}", f"{total['same']:,}", f"{total['updates lost']:,}"])
    found = Counter(problem.rpartition(", unit ")[0] for problem in outcomes["problems"])
    runs = [[name, f"{part['runs']:,}", f"{found[name]:,}"] for name, part in outcomes["conditions"].items()]
    columns = ("files", "refused", "same", "other")
    files = [[name, *(f"{part.get(column, 0):,}" for column in columns)] for name, part in outcomes["files"].items()]
    whole = sum((Counter(part) for part in outcomes["files"].values()), Counter[str]())
    files.append(["all", *(f"{whole[column]:,}" for column in columns)])
    tables = (
        (kills, ["killed", "kills", "runs with the same result", "repeated updates"]),
        (runs, ["condition", "runs", "problems"]),
        (files, ["reader", "files", "rejected", "same value", "other value"]),
    )
    return "\n\n".join(markdown_table(rows, header, text_columns=1).strip() for rows, header in tables)


if __name__ == "__main__":
    print(make_table(json.loads(OUTCOMES.read_text("utf-8"))))
