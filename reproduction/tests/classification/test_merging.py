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
    changed = [replace(row, metrics={**row.metrics, "pe": 50.0}) for row in read_results(source / "results.jsonl")]
    write_results(changed, source / "results.jsonl")
    lines = (target / "results.jsonl").read_text("utf-8").splitlines()
    summary = read_summaries(target)["bih", "lstm"].risk.tolist()

    added = merge_folder(source, target)
    assert sorted(added[:2]) == ["bih automaton 0", "bih lstm 2"]
    merged = (target / "results.jsonl").read_text("utf-8").splitlines()
    assert merged[:2] == lines
    assert len(merged) == 4
    summaries = read_summaries(target)
    assert list(summaries) == [("bih", "lstm"), ("bih", "automaton")]
    assert summaries["bih", "lstm"].risk.tolist() == summary
    assert {(row.data, row.method) for row in read_diagnostics(target)} >= {("bih", "automaton"), ("imdb", "length")}

    assert merge_folder(source, target, renew=True)[1:3] == ["bih lstm 0", "bih lstm 1"]
    assert {row.metrics["pe"] for row in read_results(target / "results.jsonl")} == {50.0}


def test_a_folder_with_diagnostics_alone_leaves_results_as_they_are(tmp_path: Path) -> None:
    target = fabricate(tmp_path / "target", 40, (replace(find("bih", "lstm"), seeds=1),))
    source = fabricate(tmp_path / "source", 40, (replace(find("bih", "automaton"), seeds=1),))
    for name in ("results.jsonl", "summary.npz"):
        (source / name).unlink()
    before = {name: (target / name).read_bytes() for name in ("results.jsonl", "summary.npz")}
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
