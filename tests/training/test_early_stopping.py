"""Early stopping."""

from __future__ import annotations

import math

from sttau.training.early_stopping import EarlyStopping


def test_it_stops_after_as_many_validations_without_improvement_as_patience_allows() -> None:
    stopping = EarlyStopping("max", patience=2)
    seen = [(stopping.improved(value), stopping.should_stop) for value in (0.1, 0.3, 0.3, 0.2)]
    assert seen == [(True, False), (True, False), (False, False), (False, True)]
    assert stopping.best == 0.3


def test_without_patience_it_never_stops_and_nan_is_never_best() -> None:
    stopping = EarlyStopping("min")
    assert not stopping.improved(math.nan)
    assert stopping.improved(1.0)
    assert not any(stopping.improved(2.0) for _ in range(100))
    assert not stopping.should_stop
