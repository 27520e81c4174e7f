"""Parts of training sequences."""

from __future__ import annotations

from dataclasses import replace

import torch

from sttau.data import load
from sttau_reproduction.classification.augmentation import add_parts


def test_parts_are_contiguous_stretches_of_their_sequences_with_their_labels() -> None:
    data = load("digits", "train").select(torch.arange(40))
    ends = torch.arange(40) % 8 + 1
    data = replace(data, lengths=ends)
    found = add_parts(data, 3)
    assert len(found) == 160
    assert torch.equal(found.inputs[:40], data.inputs)
    for number in range(40, 160):
        of, size = number % 40, int(found.lengths[number])
        part, whole = found.inputs[number, :size], data.inputs[of, : int(ends[of])]
        assert any(torch.equal(part, whole[begin : begin + size]) for begin in range(len(whole) - size + 1))
        assert not found.inputs[number, size:].any()
        assert found.labels[number] == data.labels[of]
        assert 1 <= size <= max(1, round(0.8 * int(ends[of])))
    assert len({tuple(found.lengths[begin : begin + 40].tolist()) for begin in (40, 80, 120)}) == 3
    assert torch.equal(add_parts(data, 3).inputs, found.inputs)
