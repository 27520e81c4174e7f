"""Tables in JSON and NumPy files are those of the automaton, and the reader in the docs is correct."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sttau.export import to_json, to_numpy
from tests.export.automata import SYMBOLS, automaton


def test_json_holds_every_float_exactly(tmp_path: Path) -> None:
    compiled = automaton()
    content = json.loads(to_json(compiled, tmp_path / "automaton.json").read_text("utf-8"))
    for name in ("first", "matrices", "outcome"):
        assert content[name] == getattr(compiled, name).tolist()
    assert tuple(content["vocabulary"]) == SYMBOLS
    assert content["start"] == "^"


def test_numpy_reads_the_file_without_pickle(tmp_path: Path) -> None:
    compiled = automaton(start=None)
    with np.load(to_numpy(compiled, tmp_path / "automaton.npz"), allow_pickle=False) as content:
        assert (content["matrices"] == compiled.matrices.numpy()).all()
        assert tuple(content["vocabulary"]) == SYMBOLS
        assert int(content["start"]) == -1
