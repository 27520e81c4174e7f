"""Every complaint about what a user hands in names the argument, what came and what is expected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import sttau
from sttau import SequenceClassifier, SequenceRegressor, STTauGRU, predict
from sttau.checks import as_integer, as_numbers, as_tensor

NAN, INF = float("nan"), float("inf")


def reader(tokens: bool) -> SequenceClassifier:
    """A model of two features per step, or of five tokens."""
    return SequenceClassifier(STTauGRU(2, 4, num_states=3), 3, nn.Embedding(5, 2) if tokens else None)


def features(*, at: tuple[int, int] | None = None, value: float = 0.0) -> torch.Tensor:
    """Four sequences of five steps, one number of them set by hand."""
    inputs = torch.randn(4, 5, 2)
    if at is not None:
        inputs[at][1] = value
    return inputs


def ids(*, at: tuple[int, int] | None = None, value: int = 0) -> torch.Tensor:
    """Four sequences of five tokens, one of them set by hand."""
    inputs = torch.randint(1, 5, (4, 5), generator=torch.Generator().manual_seed(0))  # 0 at the end is padding
    if at is not None:
        inputs[at] = value
    return inputs


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        (torch.zeros(4, 5, 3), ValueError, r"inputs have 3 features per step, but the model expects 2"),
        (torch.zeros(4, 5), ValueError, r"inputs must be \(batch, time, 2\) features, got shape \(4, 5\)"),
        (torch.zeros(5), ValueError, r"inputs must be \(batch, time, 2\) features, got shape \(5,\)"),
        (torch.zeros(1, 4, 5, 2), ValueError, r"inputs must be \(batch, time, 2\).*got shape \(1, 4, 5, 2\)"),
        (torch.zeros(4, 5, 2).long(), TypeError, r"inputs must be .*floating.*got torch.int64; call .float"),
        (torch.zeros(4, 5, 2).bool(), TypeError, r"inputs must be .*floating.*got torch.bool"),
        (torch.zeros(0, 5, 2), ValueError, r"inputs are empty: 0 sequences of 5 steps; expected"),
        (torch.zeros(4, 0, 2), ValueError, r"inputs are empty: 4 sequences of 0 steps; expected"),
        (features(at=(2, 3), value=NAN), ValueError, r"inputs hold NaN or infinity.*sequence 2 at step 3"),
        (features(at=(0, 4), value=INF), ValueError, r"inputs hold NaN or infinity.*sequence 0 at step 4"),
        (features(at=(3, 0), value=-INF), ValueError, r"inputs hold NaN.*sequence 3 at step 0; a model built"),
        ([[[0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]], TypeError, r"inputs must be .*got list.*Pad .*lengths"),
        (None, TypeError, r"inputs must be a tensor, an array or nested lists.*got NoneType"),
        ("0101", TypeError, r"inputs are text, but the model reads 2 features per step"),
    ],
)
def test_features_that_cannot_be_read_are_refused(inputs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        predict(reader(tokens=False), inputs)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        (
            torch.zeros(4, 5),
            TypeError,
            r"inputs must be \(batch, time\) token ids.*integer.*got torch.float32",
        ),
        (torch.zeros(4, 5).bool(), TypeError, r"inputs must be .*token ids.*integer.*got torch.bool"),
        (
            torch.zeros(4, 5, 1).long(),
            ValueError,
            r"inputs must be \(batch, time\) token.*got shape \(4, 5, 1\)",
        ),
        (ids(at=(1, 2), value=-1), ValueError, r"inputs hold token id -1 in sequence 1 at step 2.* 0 … 4"),
        (ids(at=(3, 4), value=5), ValueError, r"inputs hold token id 5 in sequence 3 at step 4.* 0 … 4"),
        (torch.zeros(0, 5).long(), ValueError, r"inputs are empty: 0 sequences of 5 steps"),
        (torch.zeros(4, 0).long(), ValueError, r"inputs are empty: 4 sequences of 0 steps"),
        ([[1, 2], [3]], TypeError, r"inputs must be .*nested lists of equal length, got list.*Pad sequences"),
    ],
)
def test_tokens_that_cannot_be_read_are_refused(inputs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        predict(reader(tokens=True), inputs)


@pytest.mark.parametrize("tokens", [False, True], ids=["features", "tokens"])
@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([5, 3, 0, 1], ValueError, r"lengths must be at least 1, but sequence 2 has length 0; leave it out"),
        ([5, -3, 2, 1], ValueError, r"lengths must be at least 1, but sequence 1 has length -3"),
        ([5, 3, 2, 6], ValueError, r"lengths must not exceed the 5 steps given, but sequence 3 has length 6"),
        ([5.0, 3.0, 2.0, 1.0], TypeError, r"lengths must be integers, got torch.float32"),
        ([True, True, True, True], TypeError, r"lengths must be integers, got torch.bool"),
        ([5, 3, 2], ValueError, r"lengths must have shape \(4,\), one per sequence, got \(3,\)"),
        ([[5], [3], [2], [1]], ValueError, r"lengths must have shape \(4,\).*got \(4, 1\)"),
        (5, ValueError, r"lengths must have shape \(4,\).*got \(\)"),
        ([[5], [3, 2]], TypeError, r"lengths must be a tensor, an array or nested lists.*got list"),
    ],
)
def test_lengths_that_cannot_be_are_refused(tokens: bool, lengths: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        predict(reader(tokens), ids() if tokens else features(), lengths)


@pytest.mark.parametrize("inference", ["soft", "exact", "deterministic"])
@pytest.mark.parametrize("value", [-1, 5, 10**12])
def test_a_token_outside_the_vocabulary_may_stand_in_the_padding(value: int, inference: Any) -> None:
    model, inputs, lengths = reader(tokens=True), ids(), [5, 3, 2, 4]
    clean = predict(model, inputs, lengths, mode=inference).mean
    inputs[1, 3] = inputs[2, 2] = inputs[3, 4] = value
    assert torch.equal(predict(model, inputs, lengths, mode=inference).mean, clean)


@pytest.mark.parametrize("inference", ["soft", "exact", "deterministic"])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_number_that_is_not_finite_may_stand_in_the_padding(value: float, inference: Any) -> None:
    model, inputs, lengths = reader(tokens=False), features(), [5, 3, 2, 4]
    clean = predict(model, inputs, lengths, mode=inference).mean
    inputs[1, 3, 0] = inputs[2, 2:] = inputs[3, 4, 1] = value
    assert torch.equal(predict(model, inputs, lengths, mode=inference).mean, clean)


def test_the_last_step_within_a_length_is_still_checked() -> None:
    with pytest.raises(ValueError, match="sequence 1 at step 2"):
        predict(reader(tokens=False), features(at=(1, 2), value=NAN), [5, 3, 5, 5])
    with pytest.raises(ValueError, match="token id 7 in sequence 1 at step 2"):
        predict(reader(tokens=True), ids(at=(1, 2), value=7), [5, 3, 5, 5])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8"])
@pytest.mark.parametrize("inference", ["soft", "exact"])
def test_tokens_of_any_integer_type_are_read_alike(dtype: str, inference: Any) -> None:
    model, inputs = reader(tokens=True), ids()
    narrow = inputs.numpy().astype(np.dtype(dtype))
    assert torch.equal(predict(model, narrow, mode=inference).mean, predict(model, inputs, mode=inference).mean)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64])
def test_lengths_of_any_integer_type_are_read_alike(dtype: torch.dtype) -> None:
    model, inputs = reader(tokens=False), features()
    lengths = torch.tensor([5, 3, 2, 1])
    checked = model.check_inputs(inputs, lengths.to(dtype))
    assert checked is not None
    assert checked.dtype == torch.int64
    assert torch.equal(checked, lengths)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 1, 3, 2], ValueError, r"labels must be in 0 … 2, but label 2 is 3"),
        ([0, -1, 1, 2], ValueError, r"labels must be in 0 … 2, but label 1 is -1"),
        ([0.0, 1.0, 1.0, 2.0], TypeError, r"labels must be integers 0 … 2, got torch.float32"),
        ([0, 1, 2], ValueError, r"labels must have shape \(4,\), one per sequence, got \(3,\)"),
        ([[0], [1], [2], [1]], ValueError, r"labels must have shape \(4,\).*got \(4, 1\)"),
    ],
)
def test_labels_that_cannot_be_are_refused(labels: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        reader(tokens=False).check_targets(torch.tensor(labels), 4)


def test_labels_come_back_as_int64() -> None:
    labels = reader(tokens=False).check_targets(torch.tensor([0, 1, 2, 1], dtype=torch.int8), 4)
    assert labels.dtype == torch.int64
    assert labels.tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize(
    ("targets", "outputs", "error", "message"),
    [
        ([[0.0], [1.0], [NAN], [2.0]], 1, ValueError, r"targets hold NaN or infinity, first in row 2; leave"),
        ([[0.0, 1.0], [1.0, INF], [1.0, 1.0], [1.0, 1.0]], 2, ValueError, r"targets hold NaN .*row 1"),
        ([0.0, 1.0, NAN, 2.0], 1, ValueError, r"targets hold NaN or infinity, first in row 2"),
        ([0, 1, 2, 3], 1, TypeError, r"targets must be of a floating type, got torch.int64; call .float"),
        ([0.0, 1.0, 2.0], 1, ValueError, r"targets must have shape \(4, 1\), got \(3, 1\)"),
        ([0.0, 1.0, 2.0, 3.0], 2, ValueError, r"targets must have shape \(4, 2\), got \(4,\)"),
        ([[0.0], [1.0], [2.0], [3.0]], 2, ValueError, r"targets must have shape \(4, 2\), got \(4, 1\)"),
    ],
)
def test_targets_that_cannot_be_are_refused(targets: Any, outputs: int, error: type[Exception], message: str) -> None:
    model = SequenceRegressor(STTauGRU(2, 4, num_states=3), outputs)
    with pytest.raises(error, match=message):
        model.check_targets(torch.tensor(targets), 4)


@pytest.mark.parametrize("targets", [torch.arange(4.0), torch.arange(4.0)[:, None]])
def test_single_targets_may_be_a_vector_or_a_column(targets: torch.Tensor) -> None:
    checked = SequenceRegressor(STTauGRU(2, 4, num_states=3)).check_targets(targets, 4)
    assert checked.tolist() == [[0.0], [1.0], [2.0], [3.0]]


@pytest.mark.parametrize("value", [7, np.int64(7), np.uint8(7), torch.tensor(7)], ids=str)
def test_integers_of_every_library_are_integers(value: Any) -> None:
    assert as_integer("updates", value, 1) == 7
    assert type(as_integer("updates", value, 1)) is int


@pytest.mark.parametrize("value", [7.5, 7.0, None, "7", True, math.inf, math.nan, 2**63, np.float64(7), [7]], ids=str)
def test_whatever_is_no_integer_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="updates must be an integer, at least 1"):
        as_integer("updates", value, 1)


def test_an_integer_below_its_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="updates must be at least 1, got 0"):
        as_integer("updates", 0, 1)
    assert as_integer("seed", -3) == -3


COUNTS: dict[str, Any] = {
    "samples": lambda n: sttau.predict(_model(), torch.zeros(1, 2, 2), samples=n),
    "chunk_size": lambda n: sttau.predict(_model(), torch.zeros(1, 2, 2), chunk_size=n),
    "seed": lambda n: sttau.predict(_model(), torch.zeros(1, 2, 2), seed=n),
    "samples of features": lambda n: sttau.inference.features(_model(), torch.zeros(1, 2, 2), samples=n),
    "samples of a validation": lambda n: sttau.training.validation(_model(), torch.zeros(1, 2, 2), [0], samples=n),
    "seed of a training": lambda n: sttau.training.TrainOptions(seed=n),
    "streams": lambda n: list(sttau.training.fit_many([], streams=n)),
    "workers": lambda n: sttau.jobs.run_cells([], lambda cells, folder: [], "unused", workers=n),
    "seeds": lambda n: sttau.compare(["lstm"], "digits", seeds=n),
    "hidden_size": lambda n: sttau.compare(["lstm"], "digits", hidden_size=n),
    "samples of a comparison": lambda n: sttau.compare(["lstm"], "digits", samples=n),
    "size": lambda n: sttau.DeepEnsemble.of(_model, n),
    "num_classes": lambda n: sttau.SequenceClassifier(sttau.STTauGRU(2, 4, 3), n),
    "num_outputs": lambda n: sttau.SequenceRegressor(sttau.STTauGRU(2, 4, 3), n),
    "paths": lambda n: sttau.SequenceClassifier(sttau.STTauGRU(2, 4, 3), 2, paths=n),
    "num_states": lambda n: sttau.STTauGRU(2, 4, n),
    "num_layers": lambda n: sttau.STTauGRU(2, 4, 3, num_layers=n),
    "hidden_size of a layer": lambda n: sttau.STTauGRU(2, n, 3),
    "bins": lambda n: sttau.metrics.calibration_error([[0.5, 0.5]], [0], bins=n),
    "updates": lambda n: sttau.automata.learn(sttau.data.load("tomita1", "train"), updates=n),
    "batch_size": lambda n: sttau.automata.learn(sttau.data.load("tomita1", "train"), batch_size=n),
    "attempts": lambda n: sttau.automata.learn_stochastic(sttau.data.load("stochastic1", "train"), attempts=n),
    "episodes": lambda n: sttau.rl.Settings(episodes=n),
    "batch": lambda n: sttau.rl.Settings(batch=n),
}


def _model() -> sttau.SequenceClassifier:
    return sttau.SequenceClassifier(sttau.STTauGRU(2, 4, 3), 2)


@pytest.mark.parametrize("value", [2.5, math.inf, "2"], ids=str)
@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_whole_numbers_everywhere(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name.split()[0]} must be an integer"):
        COUNTS[name](value)


def test_parts_of_series_and_data_frames_are_arrays_whatever_their_index() -> None:
    """Regression: a Series was read by its labels, which begin at 0 only in the first part."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})
    assert as_tensor("x", frame["a"][1:]).tolist() == [2, 3]
    assert as_tensor("x", frame[1:]).tolist() == [[2, 5], [3, 6]]
    assert as_numbers("x", pd.Series([1, 2, 3])[1:]).tolist() == [2, 3]
    model = _model()
    x, y = np.random.default_rng(0).normal(size=(6, 4, 2)), pd.Series([0, 1] * 3)
    assert len(sttau.fit(model, x[2:], y[2:], updates=1)) == 1
    with pytest.raises(TypeError, match="y must be a tensor, an array"):
        as_tensor("y", pd.Series(["a", "b"]))
