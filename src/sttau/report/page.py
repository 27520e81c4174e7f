"""HTML pages from templates, with their figures inside."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def render(template: str, **values: Any) -> str:
    """Return a page; values are escaped."""
    environment = Environment(
        loader=PackageLoader("sttau.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(template).render(**values)


def as_png(figure: Figure) -> bytes:
    """Return a figure as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160)
    return buffer.getvalue()


def as_data_url(figure: Figure) -> str:
    """Return a figure as a data URL, so that the page needs no other file."""
    return "data:image/png;base64," + base64.b64encode(as_png(figure)).decode()
