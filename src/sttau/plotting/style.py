"""One look for every figure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib

INK = "#1f2933"
MUTED = "#7b8794"
GRID = "#e4e7eb"
BLUE = "#2563ab"
ORANGE = "#d97706"
GREEN = "#2f855a"
RED = "#c53030"
PURPLE = "#6b46c1"

METHOD_COLORS = {
    "lstm": MUTED,
    "gru": INK,
    "ensemble": GREEN,
    "bayes": RED,
    "dropout": ORANGE,
    "state-regularized": PURPLE,
    "st-tau": BLUE,
}
METHOD_NAMES = {
    "lstm": "LSTM",
    "gru": "GRU",
    "ensemble": "deep ensemble",
    "bayes": "Bayes LSTM",
    "dropout": "variational dropout",
    "state-regularized": "state-regularized",
    "st-tau": "ST-τ LSTM",
}


@contextmanager
def look() -> Iterator[None]:
    """Draw in the project's style, whatever the user's own settings are."""
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
