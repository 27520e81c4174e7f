from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader

from sttau.data import SequenceDataset, collate

DATA = SequenceDataset(
    "made up",
    "train",
    torch.arange(24.0).reshape(4, 3, 2),
    torch.tensor([3, 1, 2, 3]),
    torch.tensor([0, 1, 1, 0]),
    ("no", "yes"),
    "made up",
    ids=("a", "b", "c", "d"),
)


def test_an_index_gives_one_sequence_without_padding() -> None:
    assert len(DATA) == 4
    assert DATA[1].inputs.shape == (1, 2)
    assert torch.equal(DATA[-2].inputs, DATA.inputs[2, :2])
    assert DATA[-2].label == 1
    assert torch.equal(DATA[torch.tensor(3)].inputs, DATA.inputs[3])
    with pytest.raises(IndexError):
        DATA[4]


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        (slice(1, 3), ("b", "c")),
        ([3, 0], ("d", "a")),
        (torch.tensor([True, False, False, True]), ("a", "d")),
        (slice(None, None, -2), ("d", "b")),
    ],
)
def test_several_positions_give_a_data_set(rows: slice | list[int] | torch.Tensor, ids: tuple[str, ...]) -> None:
    part = DATA[rows]
    assert isinstance(part, SequenceDataset)
    assert part.ids == ids
    assert part.class_names == DATA.class_names
    assert len(part.lengths) == len(part.inputs) == 2


def test_a_data_loader_pads_each_batch_to_its_longest_sequence() -> None:
    batches = list(DataLoader(DATA, batch_size=2, collate_fn=collate))
    assert [tuple(batch.inputs.shape) for batch in batches] == [(2, 3, 2), (2, 3, 2)]
    assert torch.cat([batch.lengths for batch in batches]).tolist() == [3, 1, 2, 3]
    assert not batches[0].inputs[1, 1:].any()
    assert torch.cat([batch.labels for batch in batches]).tolist() == [0, 1, 1, 0]


def test_the_representation_is_one_line() -> None:
    assert repr(DATA) == "SequenceDataset(made up, train: 4 sequences of 1 to 3 steps, 2 features, 2 classes)"
    assert "0 sequences" in repr(DATA[:0])
