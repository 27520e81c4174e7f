"""Colors, method titles and the style of all figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib

from sttau.methods import METHODS

INK = "#1f2933"
MUTED = "#7b8794"
GRID = "#e4e7eb"
BLUE = "#2563ab"
ORANGE = "#d97706"
GREEN = "#2f855a"
RED = "#c53030"
PURPLE = "#6b46c1"


def method_title(name: str) -> str:
    """Return the title of a method in tables and figures; the name itself for an unknown method.

    Example:
        >>> method_title("st-tau")
        'ST-τ LSTM'
    """
    return METHODS[name].title if name in METHODS else name


def method_color(name: str) -> str:
    """Return the color of a method in figures; one color for all unknown methods."""
    return METHODS[name].color if name in METHODS else INK


@contextmanager
def look() -> Iterator[None]:
    """Use the project's style, whatever the user's settings are."""
    settings: dict[Any, Any] = {
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "svg.hashsalt": "sttau",
    }
    with matplotlib.rc_context(settings):
        yield
