"""Everything ``predict`` and ``fit`` read: data sets, arrays, one series, and text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU, predict
from sttau.data import SequenceDataset, encode, load
from sttau.errors import DataError
from sttau.inference.inputs import as_examples, as_inputs
from tests.inference.small_models import DOUBLE


def strings() -> SequenceClassifier:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 8, 3), 2, nn.Embedding(3, 4))
    model.set_metadata(load("tomita1", "train"))
    return model


def digits() -> SequenceClassifier:
    torch.manual_seed(0)
    return SequenceClassifier(nn.LSTM(8, 4), 10)


def test_a_data_set_is_read_with_its_lengths() -> None:
    model, data = strings(), load("tomita1", "test")[:20]
    assert torch.equal(predict(model, data).mean, predict(model, data.inputs, data.lengths).mean)
    with pytest.raises(ValueError, match="lengths are part of a SequenceDataset"):
        predict(model, data, data.lengths)


def test_a_string_and_a_list_of_strings_are_encoded_with_the_model_s_vocabulary() -> None:
    model = strings()
    one, two = predict(model, "0110").mean, predict(model, ["0110", "1"]).mean
    assert one.shape == (1, 2)
    torch.testing.assert_close(two[:1], one)  # padding changes nothing
    torch.testing.assert_close(one, predict(model, [[0, 1, 2, 2, 1]]).mean)
    with pytest.raises(ValueError, match=r"string '012' has the symbol '2', which is not in \('\^', '0', '1'\)"):
        predict(model, "012")
    with pytest.raises(
        TypeError, match=r"inputs are text, but .* 8 features per step; pass an array of shape \(batch, time, 8\)"
    ):
        predict(digits(), "text")


def test_text_needs_a_vocabulary() -> None:
    model = SequenceClassifier(STTauGRU(4, 8, 3), 2, nn.Embedding(3, 4))
    for read in (lambda: predict(model, "good film"), lambda: encode("good film", None)):
        with pytest.raises(ValueError, match=r"vocabulary is missing: .*model\.set_metadata\(data\)"):
            read()


@pytest.mark.parametrize("as_kind", [torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.double])
def test_one_series_is_a_batch_of_one(as_kind: Any) -> None:
    series = torch.rand(6, 8)
    torch.testing.assert_close(predict(digits(), as_kind(series)).mean, predict(digits(), series[None]).mean)
    assert predict(strings(), np.array([0, 1, 2])).mean.shape == (1, 2)


def test_a_matrix_that_is_no_series_of_the_model_is_refused_with_its_shape() -> None:
    with pytest.raises(ValueError, match=r"inputs must be \(batch, time, 8\) features, got shape \(6, 5\)"):
        predict(digits(), torch.zeros(6, 5))


def test_examples_come_as_a_data_set_a_tuple_or_arrays() -> None:
    model, data = digits(), load("digits", "test")
    for given in ((data,), ((data.inputs, data.labels, data.lengths),), (data.inputs, data.labels, data.lengths)):
        inputs, targets, lengths = as_examples(model, *given)
        assert torch.equal(inputs, data.inputs)
        assert torch.equal(targets, data.labels.long())
        assert lengths is not None
        assert torch.equal(lengths, data.lengths)
    assert as_examples(model, (data.inputs, data.labels)).lengths is None
    with pytest.raises(TypeError, match="targets are missing"):
        as_examples(model, data.inputs)
    with pytest.raises(ValueError, match="do not pass them a second time"):
        as_examples(model, data, data.labels)


def test_floats_of_any_precision_are_read_in_that_of_the_model() -> None:
    assert as_inputs(digits(), np.zeros((2, 3, 8))).inputs.dtype == torch.float32


def test_a_data_set_of_another_shape_is_refused() -> None:
    data = SequenceDataset("own", "test", torch.zeros(2, 3, 5), torch.tensor([3, 3]), torch.zeros(2), (), "made up")
    with pytest.raises(ValueError, match="inputs have 5 features per step, but the model expects 8"):
        predict(digits(), data)


def test_padded_input_without_lengths_gives_a_warning() -> None:
    model = SequenceClassifier(nn.LSTM(1, 4), 2)
    inputs = torch.ones(4, 5, 1)
    inputs[2:, 2:] = 0
    with pytest.warns(UserWarning, match=r"2 of 4 series end with zeros in all features, up to 3 steps.*pass lengths="):
        as_inputs(model, inputs)
    with pytest.warns(UserWarning, match="2 of 4 series end with zeros"):
        as_examples(model, inputs, torch.tensor([0, 1, 0, 1]))
    as_inputs(model, inputs, torch.tensor([5, 5, 2, 2]))
    as_inputs(model, torch.zeros(4, 5, 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, DOUBLE], ids=str)
@pytest.mark.parametrize("mode", ["soft", "hard", "exact"])
def test_arrays_and_lists_are_read_as_tensors_are(mode: Any, dtype: torch.dtype) -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3), 3).to(dtype)
    x = torch.randn(3, 4, 2)
    want = predict(model, x, torch.tensor([4, 2, 1]), mode=mode).mean
    for inputs, lengths in (
        (x.numpy(), np.array([4, 2, 1])),
        (x.numpy().astype(np.float64), np.array([4, 2, 1], dtype=np.int32)),
        (x.tolist(), [4, 2, 1]),
    ):
        assert torch.equal(predict(model, inputs, lengths, mode=mode).mean, want)


def test_data_with_other_names_than_those_of_training_is_refused() -> None:
    """Regression: columns in another order, or classes with other numbers, were read as if they were the same."""
    model = SequenceClassifier(nn.LSTM(2, 4), 3)
    x, lengths, y = torch.randn(4, 5, 2), torch.full((4,), 5), torch.tensor([0, 1, 2, 0])
    own = SequenceDataset("own", "train", x, lengths, y, ("a", "b", "c"), "made up", feature_names=("u", "v"))
    model.set_metadata(own)
    as_examples(model, own)
    as_examples(model, replace(own, class_names=("a", "b", "c")[:2], labels=y.clamp(max=1)))
    as_examples(model, replace(own, class_names=("0", "1", "2"), feature_names=()))
    swapped = replace(own, feature_names=("v", "u"))
    for read in (as_inputs, as_examples):
        with pytest.raises(DataError, match=r"own has features v, u, .* was trained on u, v\. Read.*like=model"):
            read(model, swapped)
    fewer = replace(own, class_names=("a", "c"), labels=y.clamp(max=1))
    as_inputs(model, fewer)  # labels are not read
    with pytest.raises(DataError, match=r"own has other classes .* number 1 is 'c', and was 'b'"):
        as_examples(model, fewer)
    more = replace(own, class_names=("a", "b", "c", "d"))
    with pytest.raises(DataError, match="number 3 is 'd', and was nothing"):
        as_examples(model, more)
    reader = strings()
    reader.set_metadata(load("tomita1", "train"))
    with pytest.raises(DataError, match="other tokens than the model was trained on: number 1 is '1', and was '0'"):
        predict(reader, replace(load("tomita1", "test"), vocabulary=("^", "1", "0")))
