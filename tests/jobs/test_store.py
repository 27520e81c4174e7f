from __future__ import annotations

from pathlib import Path

from sttau.jobs import Cell, Store
from tests.jobs.runner_work import result

CELL = Cell("e", "d", "m", 3)


def test_a_result_is_read_as_it_was_written_and_replaces_a_failure(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.read(CELL) is None
    store.fail(CELL, "an error")
    failure = store.path(CELL).with_suffix(".failed.txt")
    assert failure.read_text("utf-8") == "an error"
    assert store.read(CELL) is None
    store.write(CELL, result(CELL))
    assert store.read(CELL) == result(CELL)
    assert not failure.exists()


def test_the_scratch_folder_does_not_depend_on_the_order_of_cells(tmp_path: Path) -> None:
    store, other = Store(tmp_path), Cell("e", "d", "m", 4)
    assert store.scratch_folder([CELL, other]) == store.scratch_folder([other, CELL]) != store.scratch_folder([CELL])
