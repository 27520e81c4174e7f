from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sttau.jobs import Cell, Step, Store, per_cell, run_cells
from tests.jobs.runner_work import at_once, some_fail, square

ROOT = Path(__file__).parents[2]


def _cells(folder: Path, count: int, **settings: Any) -> list[Cell]:
    return [Cell("e", "d", "m", seed, {"trace": str(folder / "trace.txt"), **settings}) for seed in range(count)]


def _trace(folder: Path) -> list[int]:
    return sorted(int(line) for line in (folder / "trace.txt").read_text().split())


def _squares(results: list[Any]) -> list[float]:
    return [result.metrics["square"] for result in results]


def test_finished_cells_are_never_computed_again(tmp_path: Path) -> None:
    cells = _cells(tmp_path, 3)
    steps: list[Step] = []
    outcome = run_cells(cells[:2], per_cell(square), tmp_path, workers=2, progress=steps.append)
    assert _squares(outcome.results) == [0, 1]
    assert [step.done for step in steps] == [1, 2]
    outcome = run_cells([*cells, cells[0]], per_cell(square), tmp_path, progress=steps.append)
    assert _squares(outcome.results) == [0, 1, 4]
    assert not outcome.failures
    assert (steps[-1].done, steps[-1].total) == (3, 3)
    assert _trace(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize("change", [{"version": 2}, {"seed": 5}, {"settings": {"a": 2}}, {"data": "x"}])
def test_a_cell_is_named_by_all_it_depends_on(change: dict[str, Any]) -> None:
    base: dict[str, Any] = {"experiment": "e", "data": "d", "method": "m", "seed": 0, "settings": {"a": 1, "b": [1]}}
    assert Cell(**base).key == Cell(**(base | {"settings": {"b": [1], "a": 1}})).key
    assert Cell(**base).key != Cell(**(base | change)).key


def test_settings_that_cannot_be_written_down_are_refused() -> None:
    with pytest.raises(ValueError, match="settings must be plain values"):
        _ = Cell("e", "d", "m", 0, {"a": object()}).key


@pytest.mark.parametrize(("option", "match"), [({"on": "moon"}, "on must be one of"), ({"workers": 0}, "workers must")])
def test_bad_options_are_named(option: dict[str, Any], match: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=match):
        run_cells([], per_cell(square), tmp_path, **option)


def test_a_cell_that_fails_stops_nobody_and_is_tried_again_next_time(tmp_path: Path) -> None:
    cells = _cells(tmp_path, 3, fails=1)
    outcome = run_cells(cells, per_cell(square), tmp_path)
    assert _squares(outcome.results) == [0, 4]
    ((cell, why),) = outcome.failures
    assert cell.seed == 1
    assert "this cell cannot be computed" in why
    assert "cannot be computed" in Store(tmp_path).path(cell).with_suffix(".failed.txt").read_text()
    run_cells(cells, per_cell(square), tmp_path)
    assert _trace(tmp_path) == [0, 1, 1, 2]


def test_a_process_that_dies_loses_nothing(tmp_path: Path) -> None:
    outcome = run_cells(_cells(tmp_path, 3, dies=1), per_cell(square), tmp_path, workers=2)
    assert _squares(outcome.results) == [0, 1, 4]
    assert _trace(tmp_path) == [0, 1, 1, 2]


def test_a_cell_that_kills_its_process_again_and_again_has_failed(tmp_path: Path) -> None:
    cells = [*_cells(tmp_path, 1), *_cells(tmp_path, 2, **{"always dies": 1})[1:]]
    outcome = run_cells(cells, per_cell(square), tmp_path)
    assert _squares(outcome.results) == [0]
    assert "exit code -9" in outcome.failures[0][1]


def test_cells_can_be_computed_together(tmp_path: Path) -> None:
    cells = _cells(tmp_path, 4)
    outcome = run_cells(cells, at_once, tmp_path, group_by=lambda cell: cell.seed < 3)
    assert _squares(outcome.results) == [0, 1, 4, 9]
    assert _trace(tmp_path) == [1, 3]
    assert not list((tmp_path / "e" / "unfinished").iterdir())


def test_work_can_say_that_one_of_its_cells_failed_and_go_on(tmp_path: Path) -> None:
    cells = _cells(tmp_path, 3, fails=1)
    outcome = run_cells(cells, some_fail, tmp_path, group_by=lambda _: 0)
    assert _squares(outcome.results) == [0, 4]
    ((cell, why),) = outcome.failures
    assert cell.seed == 1
    assert "RuntimeError: this cell cannot be computed" in why
    assert list((tmp_path / "e" / "unfinished").iterdir())  # what it has there may help the next time


def test_work_that_forgets_a_cell_is_found_out(tmp_path: Path) -> None:
    outcome = run_cells(_cells(tmp_path, 2, forgets=1), at_once, tmp_path, group_by=lambda _: 0)
    assert _squares(outcome.results) == [0]
    assert "without a result" in outcome.failures[0][1]


_RUN = """
import sys
from pathlib import Path
from sttau.jobs import per_cell, run_cells
from tests.jobs.runner_work import square
from tests.jobs.test_runner import _cells
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    run_cells(_cells(folder, 6, seconds=float(sys.argv[2])), per_cell(square), folder)
"""


def test_a_runner_that_is_killed_goes_on(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _RUN, str(tmp_path), "0.3"]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        while not list(tmp_path.glob("e/*.json")):
            assert process.poll() is None, "the runner ended before it had made anything"
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finished = len(list(tmp_path.glob("e/*.json")))
    assert finished < 6
    outcome = run_cells(_cells(tmp_path, 6, seconds=0.3), per_cell(square), tmp_path)
    assert _squares(outcome.results) == [0, 1, 4, 9, 16, 25]
    assert len(_trace(tmp_path)) <= 7  # only what was being computed is computed twice


def test_who_works_for_a_runner_that_is_killed_ends_too(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", _RUN, str(tmp_path), "600"], env=environment)
    try:
        while not (tmp_path / "at-work-0").exists():
            assert process.poll() is None, "the runner ended before it had begun"
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    for _ in range(1000):
        if not (tmp_path / "at-work-0").exists():
            return
        time.sleep(0.02)
    pytest.fail("it goes on for nobody")


def test_a_ray_cluster_computes_the_same_though_a_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of the workers
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    cells = [*_cells(tmp_path, 3, dies=1), *_cells(tmp_path, 4, fails=3)[3:]]
    outcome = run_cells(cells, per_cell(square), tmp_path, on="ray", workers=2)
    assert _squares(outcome.results) == [0, 1, 4]
    assert [cell.seed for cell, _ in outcome.failures] == [3]
    assert _trace(tmp_path) == [0, 1, 1, 2, 3]
