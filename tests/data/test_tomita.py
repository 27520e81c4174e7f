from __future__ import annotations

import pytest

from sttau.data import load
from sttau.languages import TOMITA_GRAMMARS, tomita


@pytest.mark.parametrize("number", TOMITA_GRAMMARS)
def test_data_sets_are_labeled_correctly_begin_with_the_start_token_and_do_not_overlap(number: int) -> None:
    seen: set[tuple[int, ...]] = set()
    for split in ("train", "validation", "test"):
        data = load(f"tomita{number}", split)
        assert data.vocabulary is not None
        assert bool((data.inputs[:, 0] == 0).all())
        strings = set()
        for row, length, label in zip(data.inputs.tolist(), data.lengths.tolist(), data.labels.tolist(), strict=True):
            string = "".join(data.vocabulary[token] for token in row[1:length])
            assert tomita(number).accepts_input(string) == bool(label)
            assert not any(row[length:])
            strings.add(tuple(row[:length]))
        assert not strings & seen
        seen |= strings


def test_data_sets_contain_the_empty_string_and_are_balanced_where_the_language_allows() -> None:
    data = load("tomita3", "train")
    assert int(data.lengths.min()) == 1
    assert 0.45 < float(data.labels.float().mean()) < 0.55
