"""The quickstart's report: one self-contained HTML page and its figures."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev

from sttau.files import write_atomically
from sttau.jobs import Result, write_results
from sttau.methods import METHODS
from sttau.plotting.png import as_png
from sttau.plotting.style import look, method_title
from sttau.quickstart import Quickstart
from sttau.report.page import as_svg, render
from sttau.report.quickstart_figures import (
    automaton_figures,
    ood_figure,
    reading_figure,
    reliability_figure,
)

_COLUMNS = {"pe": "error %", "ece": "ECE %", "mce": "MCE %", "auroc": "OOD AUROC %"}


def summary_table(results: list[Result]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a table: mean and standard deviation over seeds per method on the digits."""
    rows = []
    for method in METHODS:
        runs = [result for result in results if result.data == "digits" and result.method == method]
        if not runs:
            continue
        cells = [_spread([run.metrics[column] for run in runs]) for column in _COLUMNS]
        rows.append([method_title(method), *cells])
    return ["method", *_COLUMNS.values()], rows


def _spread(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{mean(values):.2f} ± {stdev(values):.2f}"


def write_report(quickstart: Quickstart, folder: Path) -> Path:
    """Write ``report.html``, the results, and the figure of the README into a folder.

    Returns:
        The path of the page.
    """
    with look():
        reading = reading_figure(quickstart)
        write_atomically(folder / "reading.png", as_png(reading, dpi=160))
        pictures = {
            "automaton": as_svg(automaton_figures(quickstart.automaton), "Automaton"),
            "reading": as_svg(reading, "Prediction while a digit is read"),
            "reliability": as_svg(reliability_figure(quickstart), "Accuracy against confidence"),
            "ood": as_svg(ood_figure(quickstart), "Share of digits above each uncertainty, in-distribution and OOD"),
        }
    write_results(quickstart.results, folder / "results.jsonl")
    header, rows = summary_table(quickstart.results)
    page = render(
        "quickstart.html.j2",
        quickstart=quickstart,
        automaton=quickstart.automaton,
        pictures=pictures,
        header=header,
        rows=rows,
        result=quickstart.results[0],
    )
    return write_atomically(folder / "report.html", page.encode())
