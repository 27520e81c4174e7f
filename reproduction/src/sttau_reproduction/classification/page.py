"""The report on the paper's experiments as one HTML page, from the parts of the library's reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup
from matplotlib.figure import Figure

from sttau.files import write_atomically
from sttau.report.page import as_svg, render
from sttau_reproduction.classification.drawing import COLORS

#: Figures that are shown below a table; the others come at the end.
_BELOW = {
    "table1": ("reliability-bih", "reliability-imdb", "tradeoff", "risk-coverage-bih", "risk-coverage-imdb"),
    "cost": ("cost-bih", "cost-imdb"),
    "ablation": ("ablation",),
    "corrupted-bih-pe": ("corrupted",),
    "dropout-sweep": ("dropout-sweep",),
}
_DEEP = COLORS["st-tau-best"]  # a dark blue, which the page makes bright on a dark background
_CAVEATS = (
    "1.40 ± 0.05 (± 0.02): mean over training seeds ± their standard deviation; in brackets the standard deviation "
    "over ten repeated predictions of the first seed. The paper's ± is the second kind: it does not cover the "
    "variation between trainings. Many rows have a single seed. —: not computed.",
    "Bold: the best mean of a column; for PE also every method that the paper's test cannot distinguish from the best "
    "(p > 0.005). A goal of ST-τ that is not reached is marked ✗. MCE is the worst bin, however few predictions it "
    "holds.",
)
_STEPS = (
    ("sttau-reproduce paper table1", "train what is missing of a table, and write this report again."),
    (
        "",
        "reproduction/docs/results.md discusses every table; log.md tells how settings were chosen.",
    ),
)


class TablePart(NamedTuple):
    """A table for the page."""

    caption: str
    header: list[str]
    rows: list[list[str]]


@dataclass
class Section:
    """Tables and figures under one heading."""

    title: str
    tables: list[TablePart] = field(default_factory=list)
    figures: dict[str, list[Markup]] = field(default_factory=dict)


def write_page(
    path: Path,
    tables: Mapping[str, str],
    titles: Mapping[str, str],
    figures: Mapping[str, Figure],
    captions: Mapping[str, str],
    footer: str,
) -> Path:
    """Write the page; return its path. It needs no other file, and is the same for the same results.

    Args:
        path: Path of the page.
        tables: Tables in Markdown by name.
        titles: Title of each table, in the order of the page.
        figures: Figures by name. They are to be saved before: their layout is fixed here.
        captions: Caption of each figure.
        footer: Last line of the page.
    """
    sections = []
    left = dict.fromkeys(figures)
    for name, title in titles.items():
        section = Section(title, parse_tables(tables[name], title))
        for figure in _BELOW.get(name, ()):
            if figure in left:
                del left[figure]
                section.figures[captions[figure]] = _panels(figures[figure], captions[figure])
        if section.tables or section.figures:  # there are results
            sections.append(section)
    if left:
        drawn = {captions[name]: _panels(figures[name], captions[name]) for name in left}
        sections.append(Section("Training and reading", figures=drawn))
    page = render(
        "sections.html.j2",
        package="sttau_reproduction.classification",
        title="Reproduction of the paper",
        lead="Tables and figures of “Uncertainty Estimation and Calibration with Finite-State Probabilistic RNNs” "
        "(Wang, Lawrence, Niepert, ICLR 2021) on heartbeats, reviews and out-of-distribution reviews, computed with "
        "sttau, compared with the paper's values.",
        sections=sections,
        caveats=_CAVEATS,
        steps=_STEPS,
        footer=footer,
    )
    return write_atomically(path, page.encode())


def parse_tables(text: str, title: str) -> list[TablePart]:
    r"""Return the tables of a text in Markdown; a line in bold above a table is its caption.

    Args:
        text: Tables in Markdown, as :func:`sttau_reproduction.classification.tables.tables` makes them.
        title: Caption of a table without one.

    Example:
        >>> parse_tables("**IMDB**\n\n| method | PE |\n| --- | ---: |\n| LSTM | **1.2** |", "Errors")[0].rows
        [['LSTM', Markup('<strong>1.2</strong>')]]
    """
    found, caption = [], title
    for block in text.split("\n\n"):
        if not block.startswith("|"):
            caption = block.strip("*")
            continue
        header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
        found.append(TablePart(caption, header, [[_bold(cell) for cell in row] for row in rows]))
    return found


def _bold(cell: str) -> str:
    match = re.fullmatch(r"\*\*(.*)\*\*", cell)
    return Markup("<strong>{}</strong>").format(match[1]) if match else cell


def _panels(figure: Figure, caption: str) -> list[Markup]:
    """Panels that stand alone: those that share an axis with others get its numbers and its label."""
    figure.set_layout_engine(None)  # the places in the file that was saved; each panel is cut out with its labels
    across, up = ({label for label in labels if label} for labels in _labels(figure))
    for axes in figure.axes:
        axes.tick_params(labelleft=True, labelbottom=True)
        axes.set_xlabel(axes.get_xlabel() or (min(across) if len(across) == 1 else ""))
        axes.set_ylabel(axes.get_ylabel() or (min(up) if len(up) == 1 else ""))
    return [panel.replace(_DEEP, "var(--deep)") for panel in as_svg(figure, caption)]


def _labels(figure: Figure) -> tuple[list[str], list[str]]:
    return [axes.get_xlabel() for axes in figure.axes], [axes.get_ylabel() for axes in figure.axes]
