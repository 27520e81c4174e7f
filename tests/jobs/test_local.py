from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sttau.jobs import per_cell, run_cells
from tests.jobs.runner_work import make_cells, read_trace, square, squares

ROOT = Path(__file__).parents[2]
PYTHONPATH = os.pathsep.join([str(ROOT / "src"), str(ROOT)])

_RUN = """
import sys
from pathlib import Path
from sttau.jobs import per_cell, run_cells
from tests.jobs.runner_work import make_cells, square
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    run_cells(make_cells(folder, 6, seconds=float(sys.argv[2])), per_cell(square), folder)
"""


def test_a_process_that_dies_loses_nothing(tmp_path: Path) -> None:
    outcome = run_cells(make_cells(tmp_path, 3, dies=1), per_cell(square), tmp_path, workers=2)
    assert squares(outcome.results) == [0, 1, 4]
    assert read_trace(tmp_path) == [0, 1, 1, 2]


def test_a_cell_that_kills_its_process_again_and_again_has_failed(tmp_path: Path) -> None:
    cells = [*make_cells(tmp_path, 1), *make_cells(tmp_path, 2, **{"always dies": 1})[1:]]
    outcome = run_cells(cells, per_cell(square), tmp_path)
    assert squares(outcome.results) == [0]
    assert "exit code -9" in outcome.failures[0][1]


def test_a_runner_that_is_killed_is_resumed(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
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
    outcome = run_cells(make_cells(tmp_path, 6, seconds=0.3), per_cell(square), tmp_path)
    assert squares(outcome.results) == [0, 1, 4, 9, 16, 25]
    assert len(read_trace(tmp_path)) <= 7  # only what was being computed is computed twice


def test_workers_of_a_killed_runner_end(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
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
    pytest.fail("the worker did not end")
