from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from sttau import SequenceClassifier, STTauGRU
from sttau.training import fit
from tests.training.small_runs import signs, weights_of


def test_a_scheduler_sets_the_learning_rate_of_every_update() -> None:
    rates: list[float] = []

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            rates.append(self.param_groups[0]["lr"])
            super().step(closure)

    x, y, lengths = signs(16)
    model = SequenceClassifier(nn.GRU(2, 4), 2)
    options: Any = {"updates": 6, "learning_rate": 0.8, "optimizer": Watched}
    fit(model, x, y, lengths, scheduler=partial(StepLR, step_size=2, gamma=0.5), **options)
    assert rates == [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]
    rates.clear()
    values = iter([1.0, 1.0, 0.5])
    plateau = partial(ReduceLROnPlateau, patience=0, factor=0.5)
    fit(model, x, y, lengths, scheduler=plateau, validation=lambda: next(values), validate_every=2, **options)
    assert rates == [0.8, 0.8, 0.8, 0.8, 0.4, 0.4]


def test_the_weights_with_the_smallest_validation_value_are_kept() -> None:
    x, y, lengths = signs()
    model = SequenceClassifier(STTauGRU(2, 8, 3), 2)
    values, weights = iter([3.0, 1.0, 2.0, 1.0]), []

    def validate() -> float:
        weights.append(weights_of(model))
        return next(values)

    log = fit(model, x, y, lengths, updates=7, validation=validate, validate_every=2)
    assert [update.validation for update in log] == [None, 3.0, None, 1.0, None, 2.0, 1.0]
    assert torch.equal(weights_of(model), weights[1])


def test_training_ends_when_the_watched_metric_has_not_become_better_for_a_while() -> None:
    x, y, lengths = signs()
    errors = iter([0.5, 0.4, 0.4, 0.3, 0.6, float("nan"), 0.1])
    model = SequenceClassifier(nn.GRU(2, 4), 2)
    kept: list[Tensor] = []

    def validate() -> dict[str, float]:
        kept.append(weights_of(model))
        return {"nll": 1.0, "error": next(errors)}

    options: dict[str, Any] = {"updates": 99, "validation": validate, "validate_every": 3, "patience": 2}
    log = fit(model, x, y, lengths, metric="error", **options)
    assert len(log) == 18  # 0.6 and NaN are two in a row
    assert log[11].metrics == {"nll": 1.0, "error": 0.3}
    assert torch.equal(weights_of(model), kept[3])


def test_a_metric_can_be_made_large() -> None:
    x, y, lengths = signs()
    values = iter([0.5, 0.9, 0.7, 0.8, 0.6])
    model = SequenceClassifier(nn.GRU(2, 4), 2)
    kept: list[Tensor] = []

    def validate() -> float:
        kept.append(weights_of(model))
        return next(values)

    log = fit(model, x, y, lengths, updates=99, validation=validate, validate_every=1, mode="max", patience=3)
    assert len(log) == 5
    assert torch.equal(weights_of(model), kept[1])
