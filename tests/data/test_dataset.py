"""A data set is a torch Dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from sttau.data import LabeledSequence, SequenceDataset, collate, load


def test_an_integer_gives_one_sequence_without_padding() -> None:
    data = load("tomita1", "train")
    assert isinstance(data, Dataset)
    item = data[-1]
    assert isinstance(item, LabeledSequence)
    assert len(item.inputs) == int(data.lengths[-1])
    assert torch.equal(item.inputs, data.inputs[-1, : int(data.lengths[-1])])
    assert item.label == data.labels[-1]
    assert torch.equal(data[torch.tensor(3)].inputs, data[3].inputs)
    with pytest.raises(IndexError):
        data[len(data)]


def test_a_slice_a_list_and_a_mask_give_data_sets() -> None:
    data = load("digits", "test")
    for some in (data[2:5], data[[2, 3, 4]], data[torch.arange(len(data)).ge(2) & torch.arange(len(data)).lt(5)]):
        assert isinstance(some, SequenceDataset)
        assert torch.equal(some.inputs, data.inputs[2:5])
        assert torch.equal(some.labels, data.labels[2:5])
        assert some.class_names == data.class_names


def test_a_loader_pads_to_the_longest_of_each_batch() -> None:
    data = load("tomita1", "train")
    seen = 0
    for batch in DataLoader(data, batch_size=50, collate_fn=collate):
        longest = int(batch.lengths.max())
        assert batch.inputs.shape == (len(batch.labels), longest)
        assert torch.equal(batch.inputs, data.inputs[seen : seen + len(batch.labels), :longest])
        assert torch.equal(batch.labels, data.labels[seen : seen + len(batch.labels)])
        seen += len(batch.labels)
    assert seen == len(data)


@pytest.mark.parametrize("index", ["a", None, 1.5, ["a"], [0.5], [[0, 1]], {}])
def test_an_index_of_another_type_is_refused_with_what_it_may_be(index: Any) -> None:
    with pytest.raises(TypeError, match="index must be an integer, a slice, or a list, array or tensor of integers"):
        load("tomita1", "train")[index]


def test_arrays_and_lists_select_what_tensors_select() -> None:
    data = load("digits", "test")
    for rows in ([5, 3], np.array([5, 3])):
        assert torch.equal(data[rows].inputs, data[torch.tensor([5, 3])].inputs)
    mask = data.labels == 4
    assert torch.equal(data[mask.numpy()].inputs, data[mask.tolist()].inputs)
    assert len(data[[]]) == 0
