from __future__ import annotations

from sttau_reproduction.automata.declaration import Plan, cells


def test_no_two_cells_have_one_name() -> None:
    names = [cell.key for cell in cells(Plan())]
    assert len(set(names)) == len(names)
    assert sum(cell.method == "st-tau" and cell.settings["states"] == 10 for cell in cells(Plan())) == 70
