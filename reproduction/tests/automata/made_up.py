"""A snapshot of a training."""

from __future__ import annotations

from sttau.automata import extract_dfa, learn
from sttau.data import load
from sttau_reproduction.automata.snapshots import Snapshot


def take_snapshot() -> Snapshot:
    extracted = extract_dfa(learn(load("tomita1", "train"), attempts=1, updates=30).model)
    return Snapshot(1500, 3.0901, extracted.dfa, extracted.probabilities, extracted.variances)
