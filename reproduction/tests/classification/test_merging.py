from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reproduction.tests.classification.fabricated import fabricate
from sttau.jobs import read_results, write_results
from sttau_reproduction.classification.diagnostics.work import read_diagnostics
from sttau_reproduction.classification.merging import merge_folder
from sttau_reproduction.classification.networks import find
from sttau_reproduction.classification.predictions import read_summaries


def test_what_is_new_is_added_and_what_is_there_stays(tmp_path: Path) -> None:
    lstm, automaton = replace(find("bih", "lstm"), seeds=2), replace(find("bih", "automaton"), seeds=1)
    target = fabricate(tmp_path / "target", 40, (lstm,))
    source = fabricate(tmp_path / "source", 40, (automaton, replace(lstm, seeds=3)))
    changed = [replace(row, metrics={**row.metrics, "pe": 50.0}) for row in read_results(source / "results.jsonl.gz")]
    write_results(changed, source / "results.jsonl.gz")
    before = read_results(target / "results.jsonl.gz")
    summary = read_summaries(target)["bih", "lstm"].risk.tolist()

    added = merge_folder(source, target)
    assert sorted(added[:2]) == ["bih automaton 0", "bih lstm 2"]
    merged = read_results(target / "results.jsonl.gz")
    assert merged[:2] == before
    assert len(merged) == 4
    summaries = read_summaries(target)
    assert list(summaries) == [("bih", "lstm"), ("bih", "automaton")]
    assert summaries["bih", "lstm"].risk.tolist() == summary
    assert {(row.data, row.method) for row in read_diagnostics(target)} >= {("bih", "automaton"), ("imdb", "length")}

    assert merge_folder(source, target, renew=True)[1:3] == ["bih lstm 0", "bih lstm 1"]
    assert {row.metrics["pe"] for row in read_results(target / "results.jsonl.gz")} == {50.0}


def test_a_folder_with_diagnostics_alone_leaves_results_as_they_are(tmp_path: Path) -> None:
    target = fabricate(tmp_path / "target", 40, (replace(find("bih", "lstm"), seeds=1),))
    source = fabricate(tmp_path / "source", 40, (replace(find("bih", "automaton"), seeds=1),))
    for name in ("results.jsonl.gz", "summary.npz"):
        (source / name).unlink()
    before = {name: (target / name).read_bytes() for name in ("results.jsonl.gz", "summary.npz")}
    assert all(name.startswith("diagnostics: ") for name in merge_folder(source, target))
    assert {name: (target / name).read_bytes() for name in before} == before


def test_diagnostics_of_networks_in_both_stay_unless_renewed(tmp_path: Path) -> None:
    """Regression: they were always replaced, while results stayed."""
    network = replace(find("bih", "automaton"), seeds=1)
    target, source = (fabricate(tmp_path / name, 40, (network,)) for name in ("target", "source"))
    changed = [replace(row, metrics={**row.metrics, "pe": 50.0}) for row in read_diagnostics(source)]
    write_results(changed, source / "diagnostics.jsonl.gz")
    kept = (target / "diagnostics.jsonl.gz").read_bytes()
    assert merge_folder(source, target) == []
    assert (target / "diagnostics.jsonl.gz").read_bytes() == kept
    merge_folder(source, target, renew=True)
    assert {row.metrics["pe"] for row in read_diagnostics(target)} == {50.0}


def test_costs_are_kept_where_only_one_row_has_them(tmp_path: Path) -> None:
    network = replace(find("bih", "automaton"), seeds=1)
    target, source = (fabricate(tmp_path / name, 40, (network,)) for name in ("target", "source"))
    (row,) = read_results(target / "results.jsonl.gz")
    costs = {"train_seconds": 5.0, "predict_seconds": 1.0}
    without = {name: value for name, value in row.metrics.items() if name not in costs}
    for first, second, renew in ((costs, {}, True), ({}, costs, False)):
        write_results([replace(row, metrics=without | first)], target / "results.jsonl.gz")
        write_results([replace(row, metrics=without | second | {"pe": 50.0})], source / "results.jsonl.gz")
        merged = merge_folder(source, target, renew)
        assert ("costs: bih automaton 0" in merged) == (not renew)
        (found,) = read_results(target / "results.jsonl.gz")
        assert {name: found.metrics[name] for name in costs} == costs
        assert (found.metrics["pe"] == 50.0) == renew

    write_results([replace(row, metrics=without | costs, settings={"method": "other"})], source / "results.jsonl.gz")
    write_results([replace(row, metrics=without)], target / "results.jsonl.gz")
    merge_folder(source, target)
    assert not set(costs) & set(read_results(target / "results.jsonl.gz")[0].metrics)
