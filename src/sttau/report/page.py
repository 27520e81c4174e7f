"""HTML pages from one set of parts: templates, and figures as SVG that follow the colors of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

import matplotlib
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sttau.plotting.style import GRID, INK, MUTED, look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colors of figures that the page replaces by its own, which differ between light and dark.
_THEME = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--line)", "#ffffff": "var(--paper)"}


def render(template: str, /, package: str = "sttau.report", **values: Any) -> str:
    """Return a page; values are escaped.

    Args:
        template: Name of the template; it may extend and include those of this package.
        package: Package whose folder ``templates`` has it.
        values: Values of the template.
    """
    places = ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, "sttau.report"))])
    environment = Environment(loader=places, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template(template).render(**values)


def as_svg(figures: Figure | Iterable[Figure], alternative: str) -> list[Markup]:
    """Return every panel of a figure as an SVG element, so that panels wrap on a narrow screen.

    Text stays text, and the colors of ink, lines and background are those of the page.

    Args:
        figures: Figure, or several.
        alternative: What the figure shows, for those who do not see it; the title of each panel is added.

    Example:
        >>> from matplotlib.figure import Figure
        >>> figure = Figure()
        >>> _ = figure.subplots(1, 2)[0].set_title("loss")
        >>> [str(panel)[16:45] for panel in as_svg(figure, "Two panels")]
        ['aria-label="Two panels: loss"', 'aria-label="Two panels" class']
    """
    every = [figures] if hasattr(figures, "savefig") else list(figures)
    return [panel for figure in every for panel in _panels(figure, alternative)]


def _panels(figure: Any, alternative: str) -> list[Markup]:
    with look(), matplotlib.rc_context({"svg.fonttype": "none"}):
        if figure.get_layout_engine() is not None:
            figure.draw_without_rendering()
            figure.set_layout_engine(None)  # the places stay while the other panels are hidden
        shown = [axes for axes in figure.axes if axes.get_visible()]
        panels = []
        for axes in shown:
            for other in shown:
                other.set_visible(other is axes)
            box = axes.get_tightbbox().transformed(figure.dpi_scale_trans.inverted()).padded(0.08)
            content = io.StringIO()
            figure.savefig(content, format="svg", bbox_inches=box, transparent=True, metadata={"Date": None})
            title = axes.get_title("left") or axes.get_title()
            panels.append(_inline(content.getvalue(), f"{alternative}: {title}" if title else alternative))
        for other in shown:
            other.set_visible(True)
    return panels


def _inline(text: str, label: str) -> Markup:
    """Return the SVG element of a file, of flexible size and in the colors of the page."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    box = re.search(r'viewBox="[\d.]+ [\d.]+ ([\d.]+)', text)
    width = round(float(box[1]) * 4 / 3) if box else 400  # points to pixels
    head = f'<svg role="img" aria-label="{escape(label)}" class="panel{" wide" * (width > 560)}" width="{width}"'
    text = re.sub(r"<svg xmlns:xlink=\S+ width=\S+ height=\S+", head, text, count=1)
    text = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", text)  # HTML knows them
    text = re.sub(r' (?:d|x|y|transform)="[^"]*"', _to_hundredths, text)
    for color, own in _THEME.items():
        text = text.replace(color, own)
    return Markup(text)


def _to_hundredths(places: re.Match[str]) -> str:
    """Cut places in points after two digits: finer than a pixel of any screen, and a tenth of a page shorter."""
    return re.sub(r"(\.\d\d)\d+", r"\1", places[0])
