from __future__ import annotations

from pathlib import Path

import pytest

from reproduction.tests.automata.made_up import take_snapshot
from sttau.automata import compare, stochastic, tomita
from sttau_reproduction.automata import snapshots
from sttau_reproduction.automata.snapshots import read_snapshots, write_snapshots

RESULTS = Path(__file__).parents[2] / "results" / "automata"


def test_snapshots_survive_writing_and_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = take_snapshot()
    monkeypatch.setattr(snapshots, "watch_training", lambda **_: (snapshot, snapshot))
    monkeypatch.setattr(snapshots, "_learned_pa", stochastic)
    early, late, learned = read_snapshots(write_snapshots(tmp_path / "snapshots.json"))
    assert (early.update, early.tau, early.probabilities) == (1500, 3.0901, snapshot.probabilities)
    assert late.variances == snapshot.variances
    assert compare(early.dfa, snapshot.dfa).equal
    assert learned[2].matrices.equal(stochastic(2).matrices)


def test_the_committed_network_learned_the_grammar() -> None:
    assert compare(read_snapshots(RESULTS / "snapshots.json").late.dfa, tomita(3)).equal
