"""The options of training."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from sttau import SequenceClassifier, SequenceRegressor
from sttau.training import TrainOptions, fit
from sttau.training.options import TrainKeywords
from tests.training.small_runs import Rates, made, signs


def test_keywords_of_fit_are_the_fields_of_the_options() -> None:
    fields = {name: hint for name, hint in get_type_hints(TrainOptions).items() if not name.startswith("_")}
    assert get_type_hints(TrainKeywords) == fields
    assert set(inspect.signature(TrainOptions).parameters) == set(TrainOptions.names())


def test_counts_are_integers_and_numpy_s_are_taken() -> None:
    options = TrainOptions(updates=np.int64(7), patience=np.int32(2))  # type: ignore[arg-type]
    assert (options.updates, type(options.updates), options.patience) == (7, int, 2)
    wrong: tuple[tuple[str, Any], ...] = (
        ("updates", 7.5),
        ("updates", 0),
        ("epochs", 1.5),
        ("batch_size", None),
        ("batch_size", True),
        ("patience", 1.5),
        ("warmup", "2"),
    )
    for name, value in wrong:
        with pytest.raises(ValueError, match=f"{name} must be"):
            TrainOptions(**{name: value})


def test_updates_or_epochs_are_given_but_not_both() -> None:
    assert TrainOptions().total_updates == TrainOptions(updates=None).total_updates == 1000
    with pytest.raises(ValueError, match="updates or epochs, not both; got updates=5 and epochs=2"):
        TrainOptions(updates=5, epochs=2)
    assert TrainOptions(updates=5).with_changes(epochs=2).for_data(9).total_updates == 2
    assert TrainOptions(epochs=2).with_changes(updates=5).for_data(9).total_updates == 5
    with pytest.raises(ValueError, match="depends on the data"):
        assert TrainOptions(epochs=2).total_updates


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(TypeError, match=r"update: there is no such training option; did you mean updates\? All"):
        TrainOptions().with_changes(update=3)
    with pytest.raises(TypeError, match=r"validate: .* did you mean validation\?"):
        TrainOptions().with_changes(validate=3)
    with pytest.raises(TypeError, match="xyz: there is no such training option; choose from updates, epochs"):
        TrainOptions().with_changes(xyz=3)


def test_the_learning_rate_rises_and_falls() -> None:
    options = TrainOptions(updates=10, learning_rate=1.0, warmup=3, schedule="cosine")
    rates = [options.learning_rate_at(number) for number in range(1, 11)]
    assert rates[0] == pytest.approx(0.25)
    assert rates[3] == max(rates)
    assert rates[-1] < 0.05
    assert TrainOptions(learning_rate=0.5).learning_rate_at(77) == 0.5


def test_half_precision_needs_a_gpu() -> None:
    with pytest.raises(ValueError, match="needs a GPU"):
        TrainOptions(precision="float16").check_device(torch.device("cpu"))


def test_the_learning_rate_rises_and_falls_as_asked_for() -> None:
    x, y, lengths = signs()
    options: dict[str, Any] = {"updates": 8, "learning_rate": 0.1, "optimizer": Rates}
    fit(SequenceClassifier(nn.LSTM(2, 4), 2), x, y, lengths, warmup=3, **options)
    assert made.pop().rates == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1, 0.1, 0.1])
    fit(SequenceClassifier(nn.LSTM(2, 4), 2), x, y, lengths, schedule="cosine", **options)
    rates = made.pop().rates
    assert rates[0] == pytest.approx(0.1)
    assert rates[4] == pytest.approx(0.05)  # half way
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] < 0.01


def test_bad_arguments_are_refused_by_name() -> None:
    x, y, lengths = signs(8)
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"updates": 0}, "updates must be at least 1"),
        ({"updates": 7.5}, "updates must be an integer, at least 1, got 7.5"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"updates": float("inf")}, "updates must be an integer"),
        ({"validate_every": 2.5}, "validate_every must be an integer"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"validate_every": 0}, "validate_every must be at least 1"),
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1"),
        ({"bucket_batches": 0}, "bucket_batches must be at least 1"),
        ({"clip_norm": 0.0}, "clip_norm must be positive, or None"),
        ({"precision": "int8"}, "precision must be one of 'float32', 'bfloat16'"),
        ({"precision": "float16"}, "needs a GPU; on a CPU use 'bfloat16'"),
        ({"mode": "up"}, "mode must be one of 'min', 'max'"),
        ({"schedule": "steep"}, "schedule must be one of 'constant', 'cosine'"),
        ({"loss": "hinge"}, "loss must be one of 'cross-entropy', 'focal', or a function"),
        ({"loss": nn.CrossEntropyLoss()}, r"loss must return one value per row.*shape \(8,\).*reduction='none'"),
        ({"loss": lambda *_: 1.0}, "loss must return one value per row.*got float"),
        ({"label_smoothing": 1.0}, r"label_smoothing must be in \[0, 1\)"),
        ({"label_smoothing": 0.1, "loss": "focal"}, "label_smoothing is part of loss='cross-entropy'"),
        ({"class_weight": "even"}, "class_weight must be 'balanced', a mapping"),
        ({"class_weight": [1.0, -1.0]}, "class_weight must hold nonnegative finite weights, got -1.0"),
        ({"class_weight": [1.0]}, "class_weight must hold one weight per class, 2, got 1"),
        ({"class_weight": {"cat": 2.0}}, "class_weight names 'cat'; the classes are 0 … 1"),
        ({"class_weight": {2: 2.0}}, "class_weight names 2; the classes are 0 … 1"),
        ({"class_weight": [0.0, 0.0]}, "are 0 for all training sequences"),
        ({"sample_weight": [1.0] * 7}, "sample_weight must hold one weight per training sequence, 8, got 7"),
        ({"sample_weight": [[1.0] * 8]}, r"sample_weight must be \(sequences,\)"),
        ({"sample_weight": [float("nan")] * 8}, "sample_weight must be nonnegative and finite"),
        ({"soft_labels": [0.5] * 8}, r"soft_labels must be \(sequences, classes\)"),
        ({"soft_labels": [[0.5, 0.4]] * 8}, "soft_labels must hold nonnegative probabilities that sum to 1, but row 0"),
        ({"soft_labels": [[0.5, 0.5]] * 7}, r"soft_labels must have shape \(8, 2\).*got \(7, 2\)"),
        ({"soft_labels": [[0.5, 0.5]] * 8, "loss": "focal"}, "soft_labels need loss='cross-entropy'"),
        ({"scheduler": "cosine"}, "scheduler must be a function from the optimizer to a scheduler.*got 'cosine'"),
        ({"scheduler": lambda _: 3}, "scheduler must return a torch.optim.lr_scheduler.LRScheduler, got int"),
        ({"scheduler": StepLR, "schedule": "cosine"}, "scheduler cannot be combined with schedule and warmup"),
        ({"scheduler": StepLR, "warmup": 2}, "scheduler cannot be combined with schedule and warmup"),
        ({"scheduler": ReduceLROnPlateau}, "ReduceLROnPlateau needs validation data"),
        ({"scheduler": ReduceLROnPlateau, "mode": "max", "validation": lambda: 1.0}, "mode of ReduceLROnPlateau is"),
        ({"progress": "yes"}, "progress must be True, False or None, got 'yes'"),
        ({"warmup": -1}, "warmup must be at least 0"),
        ({"ema_decay": 1.0}, r"ema_decay must be in \[0, 1\), or None"),
        ({"patience": 3}, "patience and metric need validation data"),
        ({"validation": lambda: {"a": 1.0, "b": 2.0}, "validate_every": 1}, "metric must be one of a, b.*got None"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            fit(model, x, y, lengths, **options)
    with pytest.raises(ValueError, match="labels must be in 0 … 1"):
        fit(model, x, y + 5)
    with pytest.raises(ValueError, match="lengths must be at least 1"):
        fit(model, x, y, lengths * 0)
    with pytest.raises(ValueError, match="inputs hold NaN"):
        fit(model, x * float("nan"), y)
    with pytest.raises(TypeError, match="targets must be of a floating type"):
        fit(SequenceRegressor(nn.LSTM(2, 4)), x, y)
