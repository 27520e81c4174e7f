from __future__ import annotations

from typing import Any

import numpy as np

from sttau.jobs import Result
from sttau.plotting.comparison import comparison_figure


def row(method: str, metric: str, value: float, mark: str = "", low: float | None = 0.1) -> dict[str, Any]:
    return {"method": method, "metric": metric, "value": value, "low": low, "high": low and 0.9, "mark": mark}


def test_a_panel_shows_values_intervals_seeds_marks_and_the_reference() -> None:
    rows = [row("lstm", "nll", 0.3), row("mine + scaling", "nll", 0.4, "▼"), row("lstm", "seconds", 3.0, low=None)]
    results = [Result("compare", "d", "lstm", None, seed, {"nll": 0.25 + seed / 10}, {}, 0.0) for seed in (0, 1)]
    figure = comparison_figure(rows, results, {"nll": ("NLL", "min"), "seconds": ("training s", None)}, "lstm")
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("NLL ↓", "training s")
    assert [label.get_text() for label in first.get_yticklabels()] == ["LSTM", "mine + scaling"]
    intervals = [line.get_xdata() for line in first.lines if len(set(line.get_ydata())) == 1]  # type: ignore[arg-type]
    assert [list(ends) for ends in intervals] == [[0.1, 0.9], [0.1, 0.9]]  # type: ignore[arg-type]
    assert [list(line.get_xdata()) for line in first.lines if line.get_linestyle() == "--"] == [[0.3, 0.3]]  # type: ignore[arg-type]
    assert [text.get_text() for text in first.texts] == ["", "▼"]
    dots = [float(x) for part in first.collections for x, _ in np.asarray(part.get_offsets())]
    assert sorted(dots) == [0.25, 0.3, 0.35, 0.4]
    assert second.get_xscale() == "log"
