from __future__ import annotations

from pathlib import Path

import pytest

from reproduction.tests.automata.made_up import take_snapshot
from sttau.automata import stochastic
from sttau_reproduction.automata import snapshots
from sttau_reproduction.automata.figures import draw, languages_figure, training_figure
from sttau_reproduction.automata.snapshots import read_snapshots

RESULTS = Path(__file__).parents[2] / "results" / "automata"


def test_titles_have_the_number_of_updates_and_tau() -> None:
    snapshot = take_snapshot()
    titles = [axes.get_title(loc="left") or axes.get_title() for axes in training_figure(snapshot, snapshot).axes]
    assert titles == ["after 1,500 updates, τ = 3.09"] * 2
    assert len(languages_figure({1: stochastic(1), 2: stochastic(2)}).axes) == 4


def test_drawing_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("trained while drawing")

    monkeypatch.setattr(snapshots, "learn", fail)
    monkeypatch.setattr(snapshots, "learn_stochastic", fail)
    assert set(draw(read_snapshots(RESULTS / "snapshots.json"))) == {"tomita3-training", "stochastic-learned"}
