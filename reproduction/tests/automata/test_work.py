from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sttau.automata import stochastic, tomita
from sttau.data import load
from sttau.jobs import Step, read_results
from sttau_reproduction.automata.declaration import QUICK, Plan, cells
from sttau_reproduction.automata.grammars import long_strings
from sttau_reproduction.automata.languages import cramer_rao, frequencies
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


def test_no_two_cells_have_one_name() -> None:
    names = [cell.key for cell in cells(Plan())]
    assert len(set(names)) == len(names)
    assert sum(cell.method == "st-tau" and cell.settings["states"] == 10 for cell in cells(Plan())) == 70


def test_long_strings_are_labeled_by_the_truth() -> None:
    data = long_strings(3)
    assert int(data.lengths.max()) == 1001
    vocabulary = data.vocabulary
    assert vocabulary is not None
    for row in range(0, len(data), 25):
        string = "".join(vocabulary[token] for token in data.inputs[row, 1 : data.lengths[row]].tolist())
        assert tomita(3).accepts_input(string) == bool(data.labels[row])


def test_ten_copies_are_those_of_the_data_set_and_more_are_drawn_like_them() -> None:
    data, counts = frequencies(2, 10)
    assert len(data) == 2046
    assert int(counts[:, 1].sum()) == int(load("stochastic2", "train").labels.sum())
    _, many = frequencies(2, 1000)
    assert (many.sum(-1) == 1000).all()
    strings = ["".join("01"[token - 1] for token in data.inputs[row, 1 : data.lengths[row]]) for row in range(2046)]
    gap = many[:, 1] / 1000 - stochastic(2).probability(strings)
    assert float(gap.abs().max()) < 5 * 0.5 / 1000**0.5  # five standard deviations


def test_the_bound_of_cramer_and_rao_is_that_of_a_simulation() -> None:
    # one label a symbol: the share of accepted copies of "0" alone cannot do better than its own binomial error
    bound = cramer_rao(1, copies=10)
    assert bound["p_0"] < (0.1 * 0.9 / 10) ** 0.5
    assert bound["p_0"] == pytest.approx(0.0145, abs=0.0001)  # all strings together help
    assert cramer_rao(1, copies=1000)["sup"] == pytest.approx(bound["sup"] / 10)
    assert torch.tensor(list(cramer_rao(2).values())).min() > 0.05
