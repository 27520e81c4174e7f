from __future__ import annotations

from sttau_reproduction.power.declaration import METHODS, Plan, cells, name_of


def test_every_method_and_baseline_has_its_cells_and_no_two_are_the_same() -> None:
    every = list(cells(Plan()))
    assert len({cell.key for cell in every}) == len(every)
    for setting in ("paper", "hour", "day"):
        seeds = {m: sum(c.method == m and c.settings["setting"] == setting for c in every) for m in METHODS}
        assert (seeds.pop("automaton"), min(seeds.values())) == (0 if setting == "paper" else 5, 5)
    assert {name_of(cell) for cell in every} >= {"st-tau", "st-tau, one path", "boosted trees", "persistence"}
