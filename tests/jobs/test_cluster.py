from __future__ import annotations

import os
from pathlib import Path

import pytest

from sttau.jobs import per_cell, run_cells
from tests.jobs.runner_work import make_cells, read_trace, square, squares

ROOT = Path(__file__).parents[2]


def test_a_ray_cluster_computes_the_same_though_a_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))  # of the workers
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    cells = [*make_cells(tmp_path, 3, dies=1), *make_cells(tmp_path, 4, fails=3)[3:]]
    outcome = run_cells(cells, per_cell(square), tmp_path, on="ray", workers=2)
    assert squares(outcome.results) == [0, 1, 4]
    assert [cell.seed for cell, _ in outcome.failures] == [3]
    assert read_trace(tmp_path) == [0, 1, 1, 2, 3]
