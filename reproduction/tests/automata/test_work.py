from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sttau.automata import stochastic, tomita
from sttau.data import load
from sttau.jobs.results import read_results
from sttau_reproduction.automata import work as experiment
from sttau_reproduction.automata.work import QUICK, Cell, Plan, cells, cramer_rao, frequencies, long_strings, run

ONE = replace(
    QUICK, grammars=(1,), baseline_seeds=0, mode_seeds=0, languages=()
)  # learns Tomita 1, reads it, and that is all


def test_a_finished_cell_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.jsonl"
    titles: list[str] = []
    first = run(path, ONE, lambda title, done, of: titles.append(f"{title}: {done} of {of}"))
    assert titles == ["tomita1, st-tau, seed 0: 0 of 2", "random3, st-tau, seed 0: 1 of 2"]
    assert first[0].metrics["equal"] == first[1].metrics["equal"] == 1
    assert first[0].metrics["wrong"] == first[0].metrics["network_wrong"] == 0

    def fail(*_: object) -> dict[str, float]:
        raise AssertionError("made again")

    monkeypatch.setattr(experiment, "_ours", fail)
    monkeypatch.setattr(experiment, "_drawn", fail)
    assert run(path, ONE) == first == read_results(path)


def test_no_two_cells_have_one_name() -> None:
    names = [cell.key for cell in cells(Plan())]
    assert len(set(names)) == len(names)
    assert sum(isinstance(cell, Cell) and cell.method == "st-tau" and cell.states == 10 for cell in cells(Plan())) == 70


def test_long_strings_are_labelled_by_the_truth() -> None:
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
