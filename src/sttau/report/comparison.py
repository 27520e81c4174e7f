"""The report of a comparison: one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from markupsafe import Markup

from sttau.comparison import Comparison
from sttau.comparison.columns import COLUMNS
from sttau.files import write_atomically
from sttau.plotting.style import look, method_title
from sttau.report.page import as_svg, render


def write_comparison_report(path: Path, comparison: Comparison) -> Path:
    """Write the report of a comparison; return its path.

    Args:
        path: Path of the page.
        comparison: Result of :func:`sttau.compare`.
    """
    header, rows = comparison.cells()
    cost = []
    for method in dict.fromkeys(result.method for result in comparison.results):
        own = [result for result in comparison.results if result.method == method]
        updates = [result.settings["updates"] for result in own if "updates" in result.settings]
        cost.append(
            [method_title(method), f"{mean(r.seconds for r in own):.1f}", f"{mean(updates):.0f}" if updates else ""]
        )
    with look():
        figure = comparison.figure()
        for axes in figure.axes:
            axes.tick_params(labelleft=True)  # every panel stands alone
        pictures = as_svg(figure, "Value and interval of every method")
    page = render(
        "comparison.html.j2",
        data=comparison.data,
        methods=comparison.methods,
        seeds=len({result.seed for result in comparison.results}),
        networks=len(comparison.results),
        header=header,
        rows=[
            [row[0], *(_marked(comparison, row[0], place, cell) for place, cell in enumerate(row[1:]))] for row in rows
        ],
        legend=comparison.legend(),
        pictures=pictures,
        cost=cost,
        result=comparison.results[0],
    )
    return write_atomically(path, page.encode())


def _marked(comparison: Comparison, method: str, place: int, cell: str) -> str:
    """Return a cell of the table: bold for the best value of its column, underlined for the second."""
    metric = comparison.metrics[place]
    goal, text = COLUMNS[metric].goal, cell.replace("**", "")
    if goal is None or not text:
        return text
    ranks = sorted({row["value"] for row in comparison.rows if row["metric"] == metric}, reverse=goal == "max")
    rank = ranks.index(comparison.row(method, metric)["value"])
    return [Markup("<strong>{}</strong>"), Markup("<u>{}</u>")][rank].format(text) if rank < 2 else text
