from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reproduction.tests.cartpole.made_up import results
from sttau_reproduction.cartpole import policy
from sttau_reproduction.cartpole.figures import curves_figure, draw, temperature_figure
from sttau_reproduction.cartpole.work import METHODS

RESULTS = Path(__file__).parents[2] / "results" / "cartpole"


def test_the_figures_show_four_settings_and_every_method() -> None:
    curves = curves_figure(results())
    assert [axes.get_title(loc="left") for axes in curves.axes] == [
        "MDP, sampling", "MDP, greedy", "POMDP, sampling", "POMDP, greedy",
    ]  # fmt: skip
    assert all(len(axes.lines) == 1 + len(METHODS) for axes in curves.axes)
    tau = temperature_figure(results()).axes[0]
    assert np.asarray(tau.lines[0].get_ydata(), dtype=float).tolist() == pytest.approx([1.0, 0.9])


def test_drawing_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("trained while drawing")

    monkeypatch.setattr(policy, "train", fail)
    assert set(draw(RESULTS)) == {"cartpole-curves", "cartpole-temperature", "cartpole-automaton"}
