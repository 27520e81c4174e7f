from __future__ import annotations

import pytest
import torch

from sttau.data import load
from sttau.data.strings import as_dataset
from sttau.languages import accepts, tomita


def test_strings_give_the_data_set_of_the_registry() -> None:
    known = load("tomita3", "train")
    strings = [
        "".join("01"[t - 1] for t in row[1:n]) for row, n in zip(known.inputs.tolist(), known.lengths, strict=True)
    ]
    data = as_dataset(strings, accepts(tomita(3), strings), "01")
    assert torch.equal(data.inputs, known.inputs)
    assert torch.equal(data.lengths, known.lengths)
    assert torch.equal(data.labels, known.labels)
    assert data.vocabulary == known.vocabulary


def test_the_start_token_is_not_a_symbol() -> None:
    with pytest.raises(ValueError, match="start token"):
        as_dataset(["^"], torch.ones(1), "^a")
