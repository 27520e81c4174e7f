from __future__ import annotations

from pathlib import Path

import pytest

from sttau.automata import compare, extract_dfa, learn, stochastic, tomita
from sttau.data import load
from sttau_reproduction.automata import snapshots
from sttau_reproduction.automata.figures import draw, languages_figure, training_figure
from sttau_reproduction.automata.snapshots import Snapshot, read_snapshots, write_snapshots

RESULTS = Path(__file__).parents[2] / "results" / "automata"


def _snapshot() -> Snapshot:
    extracted = extract_dfa(learn(load("tomita1", "train"), attempts=1, updates=30).model)
    return Snapshot(1500, 3.0901, extracted.dfa, extracted.probabilities, extracted.variances)


def test_titles_have_the_number_of_updates_and_tau() -> None:
    snapshot = _snapshot()
    titles = [axes.get_title(loc="left") or axes.get_title() for axes in training_figure(snapshot, snapshot).axes]
    assert titles == ["after 1,500 updates, τ = 3.09"] * 2
    assert len(languages_figure({1: stochastic(1), 2: stochastic(2)}).axes) == 4


def test_snapshots_survive_writing_and_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = _snapshot()
    monkeypatch.setattr(snapshots, "watch_training", lambda **_: (snapshot, snapshot))
    monkeypatch.setattr(snapshots, "_learned_pa", stochastic)
    early, late, learned = read_snapshots(write_snapshots(tmp_path / "snapshots.json"))
    assert (early.update, early.tau, early.probabilities) == (1500, 3.0901, snapshot.probabilities)
    assert late.variances == snapshot.variances
    assert compare(early.dfa, snapshot.dfa).equal
    assert learned[2].matrices.equal(stochastic(2).matrices)


def test_drawing_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("trained while drawing")

    monkeypatch.setattr(snapshots, "learn", fail)
    monkeypatch.setattr(snapshots, "learn_stochastic", fail)
    assert set(draw(read_snapshots(RESULTS / "snapshots.json"))) == {"tomita3-training", "stochastic-learned"}


def test_the_committed_network_learned_the_grammar() -> None:
    assert compare(read_snapshots(RESULTS / "snapshots.json").late.dfa, tomita(3)).equal
