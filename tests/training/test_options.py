from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sttau.training import TrainOptions
from sttau.training.options import TrainKeywords


def test_the_keywords_of_fit_are_the_fields_of_the_options() -> None:
    assert set(TrainKeywords.__annotations__) == set(TrainOptions.names())


def test_options_cannot_be_changed_in_place() -> None:
    options = TrainOptions()
    with pytest.raises(FrozenInstanceError):
        options.seed = 3  # type: ignore[misc]
    assert options.with_changes(seed=3).seed == 3
    assert options.seed == 0


def test_values_are_brought_to_one_form() -> None:
    options = TrainOptions(updates=np.int64(5), callbacks=print, folder="run")  # type: ignore[arg-type]
    assert type(options.updates) is int
    assert options.callbacks == (print,)
    assert options.folder == Path("run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"updates": 0}, "updates must be at least 1, got 0"),
        ({"batch_size": 2.5}, "batch_size must be an integer, at least 1, got 2.5"),
        ({"warmup": -1}, "warmup must be at least 0"),
        ({"learning_rate": math.inf}, "learning_rate must be positive and finite"),
        ({"clip_norm": 0.0}, "clip_norm must be positive, or None"),
        ({"ema_decay": 1.0}, r"ema_decay must be in \[0, 1\)"),
        ({"mode": "low"}, "mode must be one of 'min', 'max', got 'low'"),
        ({"schedule": "linear"}, "schedule must be one of 'constant', 'cosine'"),
    ],
)
def test_wrong_values_are_rejected_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainOptions(**changes)


def test_an_unknown_option_is_rejected_with_the_names_of_all() -> None:
    with pytest.raises(TypeError, match="steps: there is no such training option; choose from updates, batch_size"):
        TrainOptions().with_changes(steps=3)


def test_the_learning_rate_rises_over_the_warmup_and_follows_a_cosine() -> None:
    options = TrainOptions(updates=10, learning_rate=1.0, warmup=3, schedule="cosine")
    rates = [options.learning_rate_at(number) for number in range(1, 11)]
    cosine = [0.5 * (1 + math.cos(math.pi * n / 10)) for n in range(10)]
    assert rates == pytest.approx([c * min(1, (n + 1) / 4) for n, c in enumerate(cosine)])


def test_options_are_checked_against_device_and_validation() -> None:
    with pytest.raises(ValueError, match="float16' needs a GPU"):
        TrainOptions(precision="float16").check_device(torch.device("cpu"))
    with pytest.raises(ValueError, match="pass validation="):
        TrainOptions(patience=3).check_validation(False)
