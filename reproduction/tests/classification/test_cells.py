from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reproduction.tests.classification.small_networks import cells
from sttau.jobs import Cell, Result, read_results, write_results
from sttau_reproduction.classification.cells import Work, check_folder, missing_cells, run
from sttau_reproduction.classification.history import read_history
from sttau_reproduction.classification.predictions import predictions_path
from sttau_reproduction.classification.trained import network_path, trainings_of

ROOT = Path(__file__).parents[3]
PATHS = (ROOT / "src", ROOT / "reproduction" / "src")


def test_a_network_that_cannot_be_evaluated_fails_only_its_cell(tmp_path: Path) -> None:
    first, second = cells("lstm", seeds=2)
    path = network_path(tmp_path / "networks", trainings_of(first)[0])
    path.parent.mkdir()
    path.write_bytes(b"no network")
    found = {cell.key: result for cell, result in Work(tmp_path)([first, second], tmp_path)}
    assert isinstance(found[first.key], Exception)
    assert isinstance(found[second.key], Result)


def test_a_run_writes_rows_with_times_and_keeps_those_of_other_networks(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl.gz"
    other = Result("paper", "bih", "lstm", None, 0, {"pe": 1.0}, {}, 0.0)
    older = Result("paper", "digits", "lstm", None, 3, {"pe": 1.0}, {}, 0.0)
    write_results([other, older], path)
    every = cells("lstm", "st-tau-classes", "ensemble")
    assert missing_cells(every, tmp_path) == every
    outcome = run(every, tmp_path)
    assert not outcome.failures, outcome.failures[0][1]
    assert not missing_cells(every, tmp_path)
    first, *rows = read_results(path)
    assert first == other
    assert {row.method: row.states for row in rows} == {"ensemble": None, "lstm": None, "st-tau-classes": 4}
    for row in rows:
        assert row.experiment == "paper"
        assert row.metrics["train_seconds"] > 0
        assert row.metrics["predict_seconds"] > 0
        assert set(row.settings) == {"method", "settings", "training", "samples", "prediction_runs", "part"}
        assert all(isinstance(value, float) for value in row.metrics.values())

    (stretch,) = read_history(tmp_path)
    assert stretch.computed == ["digits lstm 0", "digits st-tau-classes 0", "digits ensemble 0"]
    assert stretch.seconds > 0
    before = path.read_bytes()
    run(every, tmp_path)
    assert path.read_bytes() == before  # nothing was computed, not even a time
    assert read_history(tmp_path) == [stretch]
    for other_network, lost in zip(every[1:], (every[:1], every[:2]), strict=True):
        theirs, mine = (
            predictions_path(tmp_path / "predictions", cell.data, cell.method) for cell in (other_network, lost[-1])
        )
        os.replace(theirs, mine)
    assert missing_cells(every, tmp_path) == every  # each has the answers of another, or none


def test_fewer_seeds_take_no_rows_away_but_other_settings_do(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl.gz"
    run(cells("lstm", seeds=2), tmp_path)
    timed = read_results(path)
    assert "train_seconds" in timed[0].metrics
    run(cells("lstm"), tmp_path, timing=False)
    assert read_results(path) == timed
    run(cells("lstm", updates=8), tmp_path, timing=False)
    (row,) = read_results(path)
    assert row.metrics["updates"] == 8


def test_results_of_a_part_of_the_data_do_not_mix_with_others(tmp_path: Path) -> None:
    row = Result("paper", "bih", "lstm", None, 0, {"pe": 1.0}, {"part": {"train": 10}}, 0.0)
    check_folder(tmp_path, quick=False)
    write_results([row], tmp_path / "results.jsonl.gz")
    check_folder(tmp_path, quick=True)
    with pytest.raises(ValueError, match=r"has results of a part of the data, .* all of it; name another folder"):
        check_folder(tmp_path, quick=False)


_RUN = """
import sys
from pathlib import Path
from sttau_reproduction.classification.cells import run
from reproduction.tests.classification.test_cells import killed_cells
if __name__ == "__main__":
    run(killed_cells(), Path(sys.argv[1]))
"""


def killed_cells() -> list[Cell]:
    return cells("lstm", "st-tau-classes", "dropout", updates=60, validate_every=2)


def test_a_killed_run_resumes_with_the_same_results(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *PATHS))), "OMP_NUM_THREADS": "1"}
    killed = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", _RUN, str(killed)], env=environment, start_new_session=True)
    networks = killed / "networks"
    try:  # until one network is trained and the next has begun
        while not (list(networks.glob("*.safetensors")) and list(networks.glob("*/log.jsonl"))):
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.005)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    first = {path: path.stat().st_mtime_ns for path in networks.glob("*.safetensors")}
    assert len(first) < 3
    every = killed_cells()
    assert missing_cells(every, killed)
    outcome = run(every, killed)
    assert not outcome.failures, outcome.failures[0][1]
    assert read_history(killed)
    assert all(path.stat().st_mtime_ns == when for path, when in first.items())  # trained once
    whole = tmp_path / "whole"
    expected = {cell.method: result for cell, result in Work(whole)(every, whole)}
    for found in read_results(killed / "results.jsonl.gz"):
        other = expected[found.method]
        assert isinstance(other, Result)
        assert {name: found.metrics[name] for name in other.metrics} == other.metrics
    for path in (whole / "predictions").iterdir():
        assert path.read_bytes() == (killed / "predictions" / path.name).read_bytes()
