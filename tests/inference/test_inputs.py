from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from sttau.data import SequenceDataset
from sttau.inference.inputs import as_examples, as_inputs

X, LENGTHS, Y = torch.randn(4, 5, 3), torch.tensor([5, 2, 3, 1]), torch.tensor([0, 1, 1, 0])
DATA = SequenceDataset("made up", "train", X, LENGTHS, Y, ("no", "yes"), "made up")
FEATURES = SequenceClassifier(STTauGRU(3, 8, num_states=2), num_classes=2)


def _reader_of_text() -> SequenceClassifier:
    vocabulary = ("<pad>", "<unk>", "fine", "film")
    model = SequenceClassifier(STTauGRU(4, 8, num_states=2), 2, nn.Embedding(len(vocabulary), 4))
    ids = torch.tensor([[2, 3]])
    model.set_metadata(
        SequenceDataset("text", "train", ids, torch.tensor([2]), Y[:1], ("no", "yes"), "made up", vocabulary=vocabulary)
    )
    return model


def test_a_data_set_and_its_parts_are_the_same_examples() -> None:
    for given in ((DATA,), (X, Y, LENGTHS), ((X, Y, LENGTHS),)):
        inputs, targets, lengths = as_examples(FEATURES, *given)
        assert torch.equal(inputs, X)
        assert torch.equal(targets, Y)
        assert lengths is not None
        assert torch.equal(lengths, LENGTHS)
    assert as_examples(FEATURES, (X, Y)).lengths is None


def test_one_series_is_a_batch_of_one_and_float64_becomes_the_dtype_of_the_model() -> None:
    one = as_inputs(FEATURES, np.zeros((5, 3)))
    assert (tuple(one.inputs.shape), one.inputs.dtype) == ((1, 5, 3), torch.float32)


def test_text_is_encoded_with_the_vocabulary_of_the_model() -> None:
    model = _reader_of_text()
    inputs, lengths = as_inputs(model, ["fine film", "film"])
    assert inputs.tolist() == [[2, 3], [3, 0]]
    assert lengths is not None
    assert lengths.tolist() == [2, 1]
    assert as_inputs(model, "a film").inputs.tolist() == [[1, 3]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: as_inputs(FEATURES, DATA, LENGTHS), ValueError, "lengths are part of a SequenceDataset"),
        (lambda: as_inputs(FEATURES, "fine film"), TypeError, "inputs are text, but the model reads 3 features"),
        (lambda: as_inputs(_reader_of_text(), "film", [1]), ValueError, "lengths are not taken with text"),
        (lambda: as_examples(FEATURES, DATA, Y), ValueError, "targets and lengths are part of a SequenceDataset"),
        (lambda: as_examples(FEATURES, X), TypeError, "targets are missing"),
    ],
)
def test_contradictory_input_is_rejected(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
