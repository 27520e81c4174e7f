from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reproduction.tests.classification.small_networks import generated_reviews, network
from sttau.jobs import Cell, Result, read_results
from sttau_reproduction.classification.cells import Work
from sttau_reproduction.classification.cells import cells_of as cells_of_tables
from sttau_reproduction.classification.diagnostics.work import (
    Diagnosis,
    cells_of,
    check_folder,
    length_result,
    merge_results,
    missing_cells,
    networks_of,
    results_path,
    run,
)


def _diagnosed(cells: list[Cell], folder: Path) -> dict[str, Result]:
    found = {}
    for cell, result in Diagnosis(folder)(cells, folder):
        assert isinstance(result, Result), result
        found[cell.method] = result
    return found


def test_a_network_is_diagnosed_without_training_it_again(tmp_path: Path) -> None:
    networks = [network("st-tau-classes"), network("lstm")]
    tables = {cell.method: result for cell, result in Work(tmp_path)(cells_of_tables(networks), tmp_path)}
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "networks").iterdir()}
    found = _diagnosed(cells_of(networks), tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "networks").iterdir()} == before
    plain = tables["lstm"]
    assert isinstance(plain, Result)
    for result in found.values():
        for key in ("pe", "ece", "nll"):
            assert found["lstm"].metrics[key] == pytest.approx(plain.metrics[key], rel=1e-5)
            assert result.metrics[f"clean_0_{key}"] == result.metrics[key]
            assert f"lead_off_5_{key}" in result.metrics
            assert f"classes_5_{key}" in result.metrics
    assert "states_per_step" in found["st-tau-classes"].metrics
    assert "samples_50_nll" in found["st-tau-classes"].metrics
    assert not [key for key in found["lstm"].metrics if key.startswith(("states", "samples", "customer"))]


def test_reviews_have_typos_and_are_detected_at_equal_length(tmp_path: Path) -> None:
    with generated_reviews():
        found = _diagnosed(cells_of([network("st-tau-classes", "imdb")]), tmp_path)["st-tau-classes"].metrics
        alone = length_result("imdb", {})
    for score in ("max_probability", "variance", "entropy", "mutual_information", "feature_distance"):
        for key in ("", "matched_"):
            low, middle, high = (found[f"movie_{score}_{key}auroc{end}"] for end in ("_low", "", "_high"))
            assert low < middle < high
            assert f"movie_{score}_{key}fpr95" in found
    assert "typos_3_ece" in found
    assert alone is not None
    assert alone.metrics["movie_matched_auroc"] == pytest.approx(50)


def test_there_is_no_length_where_nothing_is_ood() -> None:
    assert length_result("digits", {"train": 50}) is None


def test_rows_of_other_networks_and_seeds_stay(tmp_path: Path) -> None:
    row = Result("diagnostics", "bih", "lstm", None, 0, {"pe": 1.0}, {}, 1.0)
    path = results_path(tmp_path)
    merge_results([row, replace(row, seed=1), replace(row, method="dropout")], path)
    merge_results([replace(row, metrics={"pe": 2.0})], path)
    found = {(row.method, row.seed): row.metrics["pe"] for row in read_results(path)}
    assert found == {("lstm", 0): 2.0, ("lstm", 1): 1.0, ("dropout", 0): 1.0}


@pytest.mark.slow
def test_a_run_writes_its_results_and_computes_nothing_twice(tmp_path: Path) -> None:
    every = cells_of([network("lstm")])
    assert missing_cells(every, tmp_path) == every
    assert not run(every, tmp_path).failures
    assert not missing_cells(every, tmp_path)
    (row,) = read_results(results_path(tmp_path))
    assert (row.experiment, row.method) == ("diagnostics", "lstm")
    check_folder(tmp_path, quick=True)
    with pytest.raises(ValueError, match="name another folder"):
        check_folder(tmp_path, quick=False)


def test_ensembles_and_networks_that_were_only_tried_are_not_diagnosed() -> None:
    names = {network.name for network in networks_of()}
    assert {"st-tau-best", "dropout-tuned", "automata", "dropout-paths"} <= names
    assert not [name for name in names if "ensemble" in name or name.startswith("bayes-0")]
    with pytest.raises(ValueError, match="seeds must be at least 1"):
        cells_of(networks_of(), seeds=0)
