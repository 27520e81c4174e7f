from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from sttau.jobs import Step, read_results
from sttau_reproduction.automata.declaration import QUICK, Plan, cells
from sttau_reproduction.automata.work import measure, run

RESULTS = Path(__file__).parents[2] / "results" / "automata" / "results.jsonl.gz"
ONE = replace(QUICK, grammars=(1,), baseline_seeds=0, mode_seeds=0, languages=())  # learns two languages, no more


def test_a_finished_cell_is_not_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl.gz"
    steps: list[Step] = []
    first = run(tmp_path, ONE, progress=steps.append)
    assert not first.failures
    assert [(step.cell.data, step.done, step.total) for step in steps] == [("tomita1", 1, 2), ("random3", 2, 2)]
    assert first.results[0].metrics["equal"] == first.results[1].metrics["equal"] == 1
    assert first.results[0].metrics["wrong"] == first.results[0].metrics["network_wrong"] == 0
    written = path.read_bytes()
    shutil.rmtree(tmp_path / "cells")  # the lines of the file count as finished
    assert run(tmp_path, ONE, progress=steps.append).results == first.results == read_results(path)
    assert len(steps) == 2
    assert path.read_bytes() == written


def test_the_committed_results_are_those_of_the_plan_and_count_as_finished(tmp_path: Path) -> None:
    shutil.copy(RESULTS, tmp_path)
    steps: list[Step] = []
    outcome = run(tmp_path, progress=steps.append)
    assert not steps
    assert len(outcome.results) == len(list(cells(Plan()))) == len(read_results(RESULTS))
    assert (tmp_path / RESULTS.name).read_bytes() == RESULTS.read_bytes()


def test_a_result_has_the_number_of_states_apart_from_the_settings(tmp_path: Path) -> None:
    cell = next(cell for cell in cells(Plan(copies=(10,))) if cell.method == "spectral")
    result = measure(cell, tmp_path)
    assert result.states == 2
    assert result.settings == {"copies": 10}
