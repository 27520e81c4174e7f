from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sttau.jobs import Cell, Result, Step, Store, per_cell, run_cells
from tests.jobs.runner_work import at_once, make_cells, read_trace, some_fail, square, squares


def test_finished_cells_are_never_computed_again(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, 3)
    steps: list[Step] = []
    outcome = run_cells(cells[:2], per_cell(square), tmp_path, workers=2, progress=steps.append)
    assert squares(outcome.results) == [0, 1]
    assert [step.done for step in steps] == [1, 2]
    outcome = run_cells([*cells, cells[0]], per_cell(square), tmp_path, progress=steps.append)
    assert squares(outcome.results) == [0, 1, 4]
    assert not outcome.failures
    assert (steps[-1].done, steps[-1].total) == (3, 3)
    assert read_trace(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize(
    ("option", "match"),
    [
        ({"on": "moon"}, "on must be one of"),
        ({"workers": -1}, "workers must"),
        ({"workers": 0, "on": "ray"}, "workers must"),
    ],
)
def test_bad_options_are_named(option: dict[str, Any], match: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=match):
        run_cells([], per_cell(square), tmp_path, **option)


def test_a_cell_that_fails_does_not_stop_the_others_and_is_tried_again_next_time(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, 3, fails=1)
    outcome = run_cells(cells, per_cell(square), tmp_path)
    assert squares(outcome.results) == [0, 4]
    ((cell, why),) = outcome.failures
    assert cell.seed == 1
    assert "this cell cannot be computed" in why
    assert "cannot be computed" in Store(tmp_path).path(cell).with_suffix(".failed.txt").read_text()
    run_cells(cells, per_cell(square), tmp_path)
    assert read_trace(tmp_path) == [0, 1, 1, 2]


def test_cells_can_be_computed_together(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, 4)
    outcome = run_cells(cells, at_once, tmp_path, group_by=lambda cell: cell.seed < 3)
    assert squares(outcome.results) == [0, 1, 4, 9]
    assert read_trace(tmp_path) == [1, 3]
    assert not list((tmp_path / "e" / "unfinished").iterdir())


def test_work_can_say_that_one_of_its_cells_failed_and_continue(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, 3, fails=1)
    outcome = run_cells(cells, some_fail, tmp_path, group_by=lambda _: 0)
    assert squares(outcome.results) == [0, 4]
    ((cell, why),) = outcome.failures
    assert cell.seed == 1
    assert "RuntimeError: this cell cannot be computed" in why
    assert list((tmp_path / "e" / "unfinished").iterdir())  # what it has there may help the next time


def test_a_cell_without_a_result_has_failed(tmp_path: Path) -> None:
    outcome = run_cells(make_cells(tmp_path, 2, forgets=1), at_once, tmp_path, group_by=lambda _: 0)
    assert squares(outcome.results) == [0]
    assert "without a result" in outcome.failures[0][1]


def test_no_workers_computes_cells_in_this_process(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, 3, fails=1)
    process: list[int] = []

    def work(cell: Cell, folder: Path) -> Result:  # a closure, which no other process could import
        process.append(os.getpid())
        return square(cell, folder)

    outcome = run_cells(cells, per_cell(work), tmp_path, workers=0)
    assert squares(outcome.results) == [0, 4]
    assert [cell.seed for cell, _ in outcome.failures] == [1]
    assert process == [os.getpid()] * 3
