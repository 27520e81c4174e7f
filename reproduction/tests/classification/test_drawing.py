"""Figures of the paper's experiments, from fabricated results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from reproduction.tests.classification.fabricated import values
from sttau.jobs import Result
from sttau_reproduction.classification.drawing import heartbeat_figure, risk_coverage_figure
from sttau_reproduction.classification.predictions import read_summaries, reduce_predictions

pytestmark = pytest.mark.usefixtures("no_data")


def test_the_trace_is_drawn_above_a_reading_where_the_data_is_at_hand(folder: Path) -> None:
    asked: list[int] = []

    def trace(row: int) -> NDArray[Any]:
        asked.append(row)
        return np.linspace(0, 1, 187)

    names = ("st-tau-best", "st-tau-classes")
    bare = heartbeat_figure(names, read_summaries(folder), lambda row: None)
    full = heartbeat_figure(names, read_summaries(folder), trace)
    assert bare is not None
    assert full is not None
    assert (len(bare.axes), len(full.axes)) == (4, 8)
    with np.load(folder / "predictions" / "bih-st-tau-best.npz") as arrays:
        assert asked[:2] == arrays["reading_rows"].tolist()
    assert len(asked) == len(set(asked)) + 1  # the normal beat is the same for both


def test_the_risk_at_full_coverage_is_the_error(folder: Path, results: list[Result]) -> None:
    figure = risk_coverage_figure("bih", ("lstm",), read_summaries(folder))
    assert figure is not None
    (line,) = figure.axes[0].lines
    assert np.asarray(line.get_ydata())[-1] == pytest.approx(values(results, "bih", "lstm", "pe")[0])


def test_a_network_without_an_error_can_be_drawn() -> None:
    p = np.tile(np.array([0.8, 0.2], np.float32), (20, 1))
    summary = reduce_predictions({"probabilities": p, "labels": np.zeros(20, np.uint8)})
    assert risk_coverage_figure("imdb", ("lstm",), {("imdb", "lstm"): summary}) is not None
