"""Pages of the documentation: tables and figures between markers are made from results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from sttau.files import write_atomically
from sttau.plotting.png import as_png

_MARKED = re.compile(r"(<!-- (table|figure) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def renew(page: str, tables: Mapping[str, str], figures: Mapping[str, str]) -> str:
    r"""Put tables and figures between the markers of a page.

    Args:
        page: Markdown with ``<!-- table NAME -->`` or ``<!-- figure NAME -->``, and ``<!-- end -->`` below.
        tables: Tables by name, in Markdown.
        figures: Links to figures by name, in Markdown.

    Example:
        >>> print(renew("<!-- table a -->\nold\n<!-- end -->", {"a": "| new |"}, {}))
        <!-- table a -->
        <BLANKLINE>
        | new |
        <BLANKLINE>
        <!-- end -->
    """

    def fill(match: re.Match[str]) -> str:
        begin, kind, name, end = match.groups()
        known = tables if kind == "table" else figures
        if name not in known:
            raise ValueError(f"the page names the {kind} {name!r}; known: {', '.join(known)}")
        return f"{begin}\n{known[name]}\n\n{end}"

    return _MARKED.sub(fill, page)


def markers(page: str, kind: str) -> list[str]:
    r"""Names of the tables or figures that a page has markers for.

    Example:
        >>> markers("<!-- table a -->\n<!-- end -->", "table")
        ['a']
    """
    return [name for _, found, name, _ in _MARKED.findall(page) if found == kind]


def renew_file(path: Path, tables: Mapping[str, str], figures: Mapping[str, str]) -> Path:
    """Renew the tables and figures of a page in place."""
    return write_atomically(path, renew(path.read_text("utf-8"), tables, figures).encode())


def save_figure(figure: Figure, path: Path, dpi: int = 110) -> Path:
    """Write a figure as a PNG; return its path."""
    return write_atomically(path, as_png(figure, dpi))
