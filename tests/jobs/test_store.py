from __future__ import annotations

from pathlib import Path

import pytest

from sttau.files import write_atomically
from sttau.jobs import Cell, Store, per_cell, run_cells
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


@pytest.mark.parametrize(
    "content", [b"", b'{"cell": {}, "result"', b"\xff", b"[]", b'{"result": {"seed": 1}}', b"[" * 99999]
)
def test_a_damaged_cell_is_named_set_aside_and_computed_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    store = Store(tmp_path)
    write_atomically(store.path(CELL), content)
    outcome = run_cells([CELL], per_cell(lambda cell, _: result(cell)), tmp_path, workers=0)
    assert outcome.results == [result(CELL)]
    assert f"{store.path(CELL)} is not valid" in caplog.text
    assert store.path(CELL).with_name(f"{CELL.key}.json.damaged").read_bytes() == content


def test_a_file_that_holds_another_cell_is_not_taken_for_this_one(tmp_path: Path) -> None:
    store, other = Store(tmp_path), Cell("e", "d", "m", 4)
    store.write(other, result(other))
    store.path(other).rename(store.path(CELL))
    assert store.read(CELL) is None
