from __future__ import annotations

from pathlib import Path

import pytest

from reproduction.tests.classification.small_networks import cells
from sttau.jobs import Cell
from sttau_reproduction.classification.timing import Timing, timed_cells


def test_times_are_of_all_updates_and_all_members(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Timing, "_update_seconds", lambda self, training: 0.5)
    timed: list[str] = []

    def predict_seconds(self: Timing, cell: Cell, training: Cell) -> float:
        timed.append(training.method)
        return 0.25

    monkeypatch.setattr(Timing, "_predict_seconds", predict_seconds)
    every = cells("lstm", "ensemble", "st-tau-ensemble", updates=12)
    found = {
        name: (timed_cell, count)
        for name, (timed_cell, count) in zip(
            ("lstm", "ensemble", "st-tau-ensemble"), timed_cells(every).values(), strict=True
        )
    }
    metrics = {name: Timing("cpu")(timed_cell, tmp_path).metrics for name, (timed_cell, _) in found.items()}
    assert metrics["lstm"]["train_seconds"] == 12 * 0.5
    assert [count for _, count in found.values()] == [1, 2, 2]
    assert found["lstm"][0].key == found["ensemble"][0].key != found["st-tau-ensemble"][0].key
    assert timed == ["lstm", "lstm", "st-tau"]
