from __future__ import annotations

import numpy as np

from reproduction.tests.power.made_up import hours_of
from sttau_reproduction.power.figures import bands_figure, errors_figure, pit_figure


def test_figures_show_means_over_runs_and_one_panel_a_method() -> None:
    hours = [
        hours_of(name, seed, setting) for name in ("lstm", "st-tau") for seed in (0, 1) for setting in ("paper", "day")
    ]
    errors = errors_figure(hours)
    assert [axes.get_title(loc="left") for axes in errors.axes] == ["LSTM: mean 0.500", "ST-τ LSTM: mean 0.500"]
    assert np.asarray(errors.axes[0].lines[0].get_ydata()).tolist() == [0.5] * 100
    bands = bands_figure(hours)
    assert np.asarray(bands.axes[1].lines[0].get_ydata()).tolist() == [0.0] * 96
    pit = pit_figure(hours, ["day"])
    assert {round(bar.get_height(), 6) for bar in pit.axes[0].patches} == {1.5}  # type: ignore[attr-defined]
