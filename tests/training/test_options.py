"""The options of training."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch

from sttau.training import TrainOptions
from sttau.training.options import TrainKeywords


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
