from __future__ import annotations

from pathlib import Path

from reproduction.tests.power.made_up import hours_of
from sttau_reproduction.power.figures import draw
from sttau_reproduction.power.shown import reduce_hours
from sttau_reproduction.records import read_records

RESULTS = Path(__file__).parents[2] / "results" / "household-power"


def test_the_reduced_hours_are_enough_for_every_figure() -> None:
    hours = [
        hours_of(name, seed, setting)
        for name in ("lstm", "st-tau")
        for seed in (0, 1)
        for setting in ("paper", "hour", "day", "paths")
    ]
    assert set(draw([reduce_hours(line) for line in hours])) == {
        "power-errors", "power-day", "power-paths", "power-pit",
    }  # fmt: skip


def test_the_committed_hours_are_those_that_are_drawn() -> None:
    lines = read_records(RESULTS / "hours.jsonl.gz")
    assert len(lines) == 111
    assert all({"setting", "name", "seed"} < set(line) for line in lines if line["setting"] in ("paper", "hour", "day"))
