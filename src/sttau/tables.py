"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(rows: Sequence[Sequence[str]], header: Sequence[str], text_columns: int = 2) -> str:
    """Return a table in Markdown, without the columns that are empty in every row.

    Args:
        rows: Cells of every row.
        header: Headings of the columns.
        text_columns: Number of leading columns that are aligned to the left; the others are aligned to the right.

    Example:
        >>> print(markdown_table([("lstm", "", "4.0")], ("method", "states", "error %"), text_columns=1))
        | method | error % |
        | --- | ---: |
        | lstm | 4.0 |
    """
    used = [column for column in range(len(header)) if any(row[column] for row in rows)]
    lines = [
        [header[c] for c in used],
        ["---" if c < text_columns else "---:" for c in used],
        *([row[c] for c in used] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
