from __future__ import annotations

from sttau.automata import tomita
from sttau_reproduction.automata.grammars import long_strings


def test_long_strings_are_labeled_by_the_truth() -> None:
    data = long_strings(3)
    assert int(data.lengths.max()) == 1001
    vocabulary = data.vocabulary
    assert vocabulary is not None
    for row in range(0, len(data), 25):
        string = "".join(vocabulary[token] for token in data.inputs[row, 1 : data.lengths[row]].tolist())
        assert tomita(3).accepts_input(string) == bool(data.labels[row])
